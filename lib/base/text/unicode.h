// UTF-8, and the properties of code points that tokenizers and chat templates need.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

struct CodePoint {
  char32_t value = 0;  // U+FFFD if the bytes are not UTF-8
  // In bytes. For bytes that are not UTF-8: of the longest prefix that begins a code point, at
  // least 1.
  std::size_t length = 1;
  bool valid = true;
};

// Returns the code point at `text[at]`. REQUIRES: at < text.size().
CodePoint CodePointAt(std::string_view text, std::size_t at);

void AppendUtf8(char32_t code_point, std::string& out);

// Returns the offset of the first byte that is not UTF-8. Surrogates and overlong forms are not
// UTF-8.
std::optional<std::size_t> FirstInvalidUtf8(std::string_view text);

// Returns `bytes` with U+FFFD for each maximal subpart of an ill-formed sequence (Unicode 15,
// section 3.9).
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Returns normalization form C, in O(n log n) for any text. REQUIRES: valid UTF-8.
std::string NormalizeNfc(std::string_view text);

// Returns whether the code point has the property White_Space.
bool IsWhiteSpace(char32_t code_point);

// Returns whether the code point matches \w of UTS 18: Alphabetic, marks, decimal digits, connector
// punctuation and joiners.
bool IsWordCharacter(char32_t code_point);

}  // namespace buttress
