// The form in which SentencePiece writes spaces, which pre_tokenizer and decoder of a
// tokenizer.json share: a space becomes a visible character, and one more may be put before the
// text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct Metaspace {
  // Where the character is put before a part of the text that does not begin with it.
  enum class Prepend : std::uint8_t {
    kAlways,
    kFirst,  // only at the beginning of the whole text, not after an added token
    kNever,
  };

  std::string replacement = "\u2581";
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // words begin at the character
};

// Reads an object of type Metaspace; kInvalidArgument names the member that is malformed.
Result<Metaspace> ParseMetaspace(const nlohmann::json& spec, const std::string& path);

}  // namespace buttress
