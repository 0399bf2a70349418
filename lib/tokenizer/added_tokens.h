// Finds added tokens, such as the special token <|im_end|>, in a text before BPE encodes the rest.
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
  bool special = false;      // omitted by SpecialTokens::kSkip
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool single_word = false;  // matches only if no word character touches it
  bool normalized = false;   // matches in the normalized text instead of the raw text
};

// A part of a text: an added token, or the text between two of them.
struct AddedTokenPart {
  std::optional<std::int32_t> token;
  TextRange range;
};

// Matches the leftmost and, at one place, the longest token. Thread-safe after construction.
class AddedTokenFinder {
 public:
  // REQUIRES: contents are not empty and differ.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Returns the parts in order, which together are the whole text. REQUIRES: valid UTF-8.
  std::vector<AddedTokenPart> Split(std::string_view text) const;

 private:
  const AddedToken* LongestAt(std::string_view rest) const;

  std::vector<AddedToken> tokens_;
  TextMap<std::size_t> index_;                                       // content -> index in tokens_
  std::array<std::vector<std::size_t>, 256> lengths_by_first_byte_;  // of contents, longest first
};

}  // namespace buttress
