#include "lib/base/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

std::uint8_t ByteAt(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

// Returns the canonical decomposition without the ordering of marks.
std::vector<utf8proc_int32_t> Decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    at += c.length;
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c.value), parts, 32,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    BUTTRESS_CHECK(n > 0 && n <= 32, "a valid code point decomposes into at most 32");
    out.insert(out.end(), parts, parts + n);
  }
  return out;
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Orders combining marks. utf8proc's own ordering is a bubble sort and quadratic in a run of marks.
void OrderMarks(std::vector<utf8proc_int32_t>& code_points) {
  auto it = code_points.begin();
  while (it != code_points.end()) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    const auto end =
        std::find_if(it, code_points.end(), [](auto c) { return CombiningClass(c) == 0; });
    std::stable_sort(it, end, [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    it = end;
  }
}

// Circled, squared and negative letters, which are Alphabetic although their category is "other
// symbol".
bool IsAlphabeticSymbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace

CodePoint CodePointAt(std::string_view text, std::size_t at) {
  const std::uint8_t lead = ByteAt(text, at);
  if (lead < 0x80) return {.value = lead};
  const CodePoint bad{.value = kReplacement, .length = 1, .valid = false};
  std::size_t length = 0;
  // Bounds of the second byte, which exclude overlong forms, surrogates and values above 10FFFF.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return bad;
  }
  char32_t value = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const bool present = at + i < text.size();
    const std::uint8_t byte = present ? ByteAt(text, at + i) : 0;
    if (byte < low || byte > high) return {.value = kReplacement, .length = i, .valid = false};
    value = (value << 6U) | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {.value = value, .length = length};
}

void AppendUtf8(char32_t code_point, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
}

std::optional<std::size_t> FirstInvalidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (!c.valid) return at;
    at += c.length;
  }
  return std::nullopt;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, at);
    if (c.valid) {
      out.append(bytes.substr(at, c.length));
    } else {
      AppendUtf8(kReplacement, out);
    }
    at += c.length;
  }
  return out;
}

std::string NormalizeNfc(std::string_view text) {
  // No code point below U+0300, whose first byte is 0xCC, composes.
  const bool composed = std::all_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<std::uint8_t>(c) < 0xCC; });
  if (composed) return std::string(text);
  std::vector<utf8proc_int32_t> code_points = Decompose(text);
  OrderMarks(code_points);
  const auto length = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  BUTTRESS_CHECK(length >= 0, "composition of valid code points succeeds");
  std::string out;
  out.reserve(text.size());
  for (const auto c : std::span(code_points).first(static_cast<std::size_t>(length))) {
    AppendUtf8(static_cast<char32_t>(c), out);
  }
  return out;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || IsAlphabeticSymbol(c);
  }
}

}  // namespace buttress
