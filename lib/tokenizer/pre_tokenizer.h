// Splits a text into words. BPE merges tokens only within a word.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/tokenizer/metaspace.h"
#include "lib/tokenizer/regex.h"
#include "lib/tokenizer/split_pattern.h"

namespace buttress {

struct PreTokenizedText {
  std::string text;              // in the alphabet of the vocabulary
  std::vector<TextRange> words;  // in order, none empty
};

// Split, ByteLevel, Metaspace, Digits and Punctuation of tokenizer.json's pre_tokenizer, alone or
// in a Sequence. Thread-safe.
class PreTokenizer {
 public:
  // Reads the pre_tokenizer of a tokenizer.json. Returns kInvalidArgument for types other than
  // those above.
  static Result<PreTokenizer> FromJson(const nlohmann::json& spec);

  // Splits a part of a text, which begins it if `first`. REQUIRES: `text` is valid UTF-8.
  Result<PreTokenizedText> Split(std::string text, bool first) const;

  // Whether a space is put before the words.
  bool add_prefix_space() const;

 private:
  // Writes the bytes of each word as characters (byte_level.h), after a split at `words`.
  struct ByteLevel {
    bool add_prefix_space = true;
    std::optional<SplitPattern> words;
  };

  struct Spaces {
    Metaspace metaspace;
    SplitPattern words;  // at the replacement
  };

  using Step = std::variant<SplitPattern, ByteLevel, Spaces>;

  PreTokenizer() = default;

  static Result<Step> ParseStep(const nlohmann::json& spec, const std::string& path);
  static Result<Step> ParseByteLevel(const nlohmann::json& spec, const std::string& path);
  static Result<Step> ParseSpaces(const nlohmann::json& spec, const std::string& path);

  std::vector<Step> steps_;
};

}  // namespace buttress
