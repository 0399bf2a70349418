#include "lib/jinja/text.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>

#include "lib/base/text/unicode.h"
#include "lib/jinja/value.h"

namespace buttress {
namespace {

// Returns Python's str.isspace(): White_Space and the four information separators.
bool IsSpace(char32_t c) { return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F); }

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::size_t LastCodePoint(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

// Characters of Unicode's SpecialCasing.txt, and the capital sigma, whose lower case depends on the
// next character.
bool HasSpecialCase(char32_t c) {
  return c == 0xDF || c == 0x130 || c == 0x149 || c == 0x1F0 || c == 0x390 || c == 0x3A3 ||
         c == 0x3B0 || c == 0x587 || (c >= 0x1E96 && c <= 0x1E9A) || (c >= 0x1F50 && c <= 0x1FFC) ||
         (c >= 0xFB00 && c <= 0xFB17);
}

bool IsCased(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

using CaseMap = utf8proc_int32_t (*)(utf8proc_int32_t);

Status AppendCase(char32_t c, CaseMap map, std::string& out) {
  if (HasSpecialCase(c)) {
    std::string character;
    AppendUtf8(c, character);
    return InvalidArgument("the upper and lower case of '" + character + "' are not supported");
  }
  AppendUtf8(static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c))), out);
  return OkStatus();
}

// Maps the first character with `first` and the others with `others`.
Result<std::string> MapCase(std::string_view text, CaseMap first, CaseMap others) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    BUTTRESS_RETURN_IF_ERROR(AppendCase(c.value, at == 0 ? first : others, out));
    at += c.length;
  }
  return out;
}

// Appends the character of the escape at `source[at]`, after the backslash. Returns the number of
// bytes consumed.
Result<std::size_t> AppendEscape(std::string_view source, std::size_t at, std::string& out) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = source[at];
  if (c == '\n') return std::size_t{1};
  const std::size_t simple = kLetters.find(c);
  if (simple != std::string_view::npos) {
    out += kMeanings[simple];
    return std::size_t{1};
  }
  if (c == 'N' || (c >= '0' && c <= '7')) {
    return InvalidArgument(std::string("the escape \\") + c + " is not supported");
  }
  const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {  // not an escape: both characters are kept
    out += '\\';
    return std::size_t{0};
  }
  char32_t value = 0;
  const std::string_view hex = source.substr(at + 1, digits);
  for (const char digit : hex) {
    const std::size_t nibble = std::string_view("0123456789abcdefABCDEF").find(digit);
    if (nibble == std::string_view::npos) {
      return InvalidArgument("a \\" + std::string(1, c) + " escape with wrong digits");
    }
    value = value * 16 + static_cast<char32_t>(nibble < 16 ? nibble : nibble - 6);
  }
  if (hex.size() < digits || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    return InvalidArgument(fmt::format("the escape \\{}{} is not a character", c, hex));
  }
  AppendUtf8(value, out);
  return 1 + digits;
}

std::vector<std::string> SplitAtWhiteSpace(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string> parts;
  text = StripTextLeft(text);
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && !IsSpace(CodePointAt(text, end).value)) {
      end += CodePointAt(text, end).length;
    }
    if (max_splits >= 0 && static_cast<std::int64_t>(parts.size()) >= max_splits) {
      end = StripTextRight(text).size();
    }
    parts.emplace_back(text.substr(0, end));
    text = StripTextLeft(text.substr(end));
  }
  return parts;
}

}  // namespace

std::string_view StripTextLeft(std::string_view text) {
  return StripText(text, std::nullopt, StripSide::kLeft);
}

std::string_view StripTextRight(std::string_view text) {
  return StripText(text, std::nullopt, StripSide::kRight);
}

std::string_view StripText(std::string_view text, const std::optional<std::string>& characters,
                           StripSide side) {
  const auto strips = [&](std::size_t at, std::size_t length) {
    if (!characters.has_value()) return IsSpace(CodePointAt(text, at).value);
    return characters->find(text.substr(at, length)) != std::string::npos;
  };
  while (side != StripSide::kRight && !text.empty()) {
    const std::size_t length = CodePointAt(text, 0).length;
    if (!strips(0, length)) break;
    text.remove_prefix(length);
  }
  while (side != StripSide::kLeft && !text.empty()) {
    const std::size_t at = LastCodePoint(text);
    if (!strips(at, text.size() - at)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

Result<std::string> UnescapeText(std::string_view source) {
  std::string out;
  for (std::size_t at = 0; at < source.size();) {
    if (source[at] != '\\' || at + 1 >= source.size()) {
      out += source[at++];
      continue;
    }
    BUTTRESS_ASSIGN_OR_RETURN(const std::size_t taken, AppendEscape(source, at + 1, out));
    at += 1 + taken;
  }
  return out;
}

Result<std::string> UpperText(std::string_view text) {
  return MapCase(text, utf8proc_toupper, utf8proc_toupper);
}

Result<std::string> LowerText(std::string_view text) {
  return MapCase(text, utf8proc_tolower, utf8proc_tolower);
}

Result<std::string> CapitalizeText(std::string_view text) {
  return MapCase(text, utf8proc_totitle, utf8proc_tolower);
}

Result<std::string> TitleText(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    BUTTRESS_RETURN_IF_ERROR(
        AppendCase(c.value, in_word ? utf8proc_tolower : utf8proc_totitle, out));
    in_word = IsCased(c.value);
    at += c.length;
  }
  return out;
}

Result<std::string> ReplaceText(std::string_view text, std::string_view from, std::string_view to,
                                std::int64_t count) {
  std::string out;
  std::size_t at = 0;
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    if (out.size() > kJinjaTextBytesMax) {
      return ResourceExhausted("replace makes a text of more than " +
                               std::to_string(kJinjaTextBytesMax) + " bytes");
    }
    if (from.empty()) {  // before each character and at the end
      out += to;
      if (at >= text.size()) break;
      const std::size_t length = CodePointAt(text, at).length;
      out += text.substr(at, length);
      at += length;
      continue;
    }
    const std::size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(std::min(at, text.size()));
  return out;
}

std::vector<std::string> SplitText(std::string_view text,
                                   const std::optional<std::string>& separator,
                                   std::int64_t max_splits) {
  if (!separator.has_value()) return SplitAtWhiteSpace(text, max_splits);
  std::vector<std::string> parts;
  while (max_splits < 0 || static_cast<std::int64_t>(parts.size()) < max_splits) {
    const std::size_t found = text.find(*separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitTextLines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (!IsLineEnd(c.value)) {
      at += c.length;
      continue;
    }
    lines.emplace_back(text.substr(begin, at - begin));
    at += text.substr(at).starts_with("\r\n") ? 2 : c.length;
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

}  // namespace buttress
