// Tokens that are found in the text before BPE sees it: special tokens such as <|im_end|>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/regex.h"
#include "lib/tokenizer/vocabulary.h"

namespace buttress {

// An entry of tokenizer.json's added_tokens.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;      // left out by SpecialTokens::kSkip
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // found only where no word character touches it
  bool normalized = false;   // looked for after normalization instead of before
};

// A part of a text: an added token, or text between two.
struct AddedTokenPart {
  std::optional<std::int32_t> token;
  TextRange range;
};

// Finds the leftmost, then longest of its tokens. Thread-safe after construction.
class AddedTokenFinder {
 public:
  // REQUIRES: contents not empty, no two alike.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Parts in order, together the whole text. REQUIRES: valid UTF-8.
  std::vector<AddedTokenPart> Split(std::string_view text) const;

 private:
  const AddedToken* LongestAt(std::string_view rest) const;

  std::vector<AddedToken> tokens_;
  TextMap<std::size_t> index_;                                       // content -> place in tokens_
  std::array<std::vector<std::size_t>, 256> lengths_by_first_byte_;  // of contents, longest first
};

}  // namespace buttress
