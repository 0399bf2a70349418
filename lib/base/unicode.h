// UTF-8 and the few properties of code points that tokenizers and chat templates need.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

struct CodePoint {
  char32_t value = 0;  // U+FFFD where the bytes are not UTF-8
  std::size_t length =
      1;  // bytes; of bytes that are not UTF-8, the longest that begin a code point, at least one
  bool valid = true;
};

// The code point at `text[at]`. REQUIRES: at < text.size().
CodePoint CodePointAt(std::string_view text, std::size_t at);

void AppendUtf8(char32_t code_point, std::string& out);

// Offset of the first byte that is not UTF-8 (surrogates and overlong forms are not).
std::optional<std::size_t> FirstInvalidUtf8(std::string_view text);

// `bytes` with U+FFFD for each longest run that begins a code point and does not end it (Unicode
// 15, 3.9, "maximal subparts").
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Normalization form C, in time n log n whatever the text. REQUIRES: valid UTF-8.
std::string NormalizeNfc(std::string_view text);

// Property White_Space.
bool IsWhiteSpace(char32_t code_point);

// \w of UTS 18: Alphabetic, marks, decimal digits, connector punctuation, joiners.
bool IsWordCharacter(char32_t code_point);

}  // namespace buttress
