// The facts about a completion's text: enough to find copies, near copies and truncated endings, in
// a fixed number of bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/text/minhash.h"

namespace buttress {

// Facts about a text, or about token ids in place of words; all 0 if neither is known.
struct TextFacts {
  std::uint64_t digest = 0;  // equal for equal texts; 0 if nothing is known
  std::int32_t words = 0;    // words, numbers and other characters of a text, or tokens
  std::int32_t length = 0;   // bytes of a text, or tokens
  bool ends_midway = false;  // the last character of the text does not end an answer
  MinHash sketch{};          // of its words or tokens

  bool known() const { return digest != 0; }
};

// Computes the facts of a text in linear time. Pure.
TextFacts FactsOfText(std::string_view text);

}  // namespace buttress
