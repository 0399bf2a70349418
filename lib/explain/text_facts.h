// What is kept of a completion's text: enough to see copies, near copies and cut ends, in a fixed
// number of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/minhash.h"

namespace buttress {

// Of a text or of token ids; all 0 where neither is known.
struct TextFacts {
  std::uint64_t digest = 0;  // equal for equal texts; 0: nothing is known
  std::int32_t words = 0;    // of a text: words, numbers, other characters; else tokens
  std::int32_t length = 0;   // of a text: bytes; else tokens
  bool ends_midway = false;  // the text's last character is none that ends an answer

  MinHash sketch{};  // of its words or tokens

  bool known() const { return digest != 0; }
};

// Pure, linear in the text.
TextFacts FactsOfText(std::string_view text);
TextFacts FactsOfTokens(std::span<const std::int32_t> token_ids);

}  // namespace buttress
