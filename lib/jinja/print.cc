#include "lib/jinja/print.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

// Returns Python's repr(float): the shortest digits that read back as the same number, in
// scientific notation below 1e-4 and from 1e16.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(),
                  exponent);
  if (exponent < -4 || exponent >= 16) return text;
  char fixed[400];
  const auto end = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed);
  std::string out(fixed, end.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

// Returns Python's str.isprintable() for one character.
bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string TextRepr(std::string_view text) {
  const bool single =
      text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (IsPrintable(c.value)) {
      out += text.substr(at, c.length);
    } else {
      const auto value = static_cast<std::uint32_t>(c.value);
      out += value < 0x100     ? fmt::format("\\x{:02x}", value)
             : value < 0x10000 ? fmt::format("\\u{:04x}", value)
                               : fmt::format("\\U{:08x}", value);
    }
    at += c.length;
  }
  return out + quote;
}

std::string JsonText(std::string_view text, bool ensure_ascii) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kEscapes = "\"\\nrtbf";
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    const auto value = static_cast<std::uint32_t>(c.value);
    const std::size_t escape =
        value < 0x80 ? kEscaped.find(static_cast<char>(value)) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      out += '\\';
      out += kEscapes[escape];
    } else if (value >= 0x20 && (value < 0x7F || !ensure_ascii)) {
      out += text.substr(at, c.length);
    } else if (value < 0x10000) {
      out += fmt::format("\\u{:04x}", value);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10U),
                         0xDC00 + ((value - 0x10000) & 0x3FFU));
    }
    at += c.length;
  }
  return out + '"';
}

// Writes a value as JSON, or as Python's repr().
class ValueWriter {
 public:
  // Writes JSON if `json` is true, and the repr, for which `style` is the default, otherwise.
  ValueWriter(const JinjaJsonStyle& style, bool json) : style_(style), json_(json) {}

  Status Write(const JinjaValue& value) {
    if (out_.size() > kJinjaTextBytesMax) {
      return ResourceExhausted("a text of more than " + std::to_string(kJinjaTextBytesMax) +
                               " bytes");
    }
    if (value.is_none()) {
      out_ += json_ ? "null" : "None";
    } else if (value.is_undefined() && !json_) {
      out_ += "Undefined";
    } else if (value.Is<bool>()) {
      const bool truth = value.As<bool>();
      out_ += json_ ? (truth ? "true" : "false") : (truth ? "True" : "False");
    } else if (value.Is<std::int64_t>()) {
      out_ += std::to_string(value.As<std::int64_t>());
    } else if (value.Is<double>()) {
      WriteFloat(value.As<double>());
    } else if (value.is_text()) {
      if (value.is_safe_text() && !json_) {
        out_ += "Markup(" + TextRepr(value.text()) + ")";
      } else {
        WriteText(value.text());
      }
    } else if (value.is_list()) {
      return WriteList(*value.As<std::shared_ptr<const JinjaList>>());
    } else if (value.is_dict()) {
      return WriteDict(value.entries());
    } else {
      return InvalidArgument(fmt::format("a {} cannot be {}", value.TypeName(),
                                         json_ ? "written as JSON" : "printed"));
    }
    return OkStatus();
  }

  std::string Finish() && { return std::move(out_); }

 private:
  void WriteFloat(double value) {
    if (!json_ || std::isfinite(value)) {
      out_ += FloatText(value);
    } else {
      out_ += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    }
  }

  void WriteText(std::string_view text) {
    out_ += json_ ? JsonText(text, style_.ensure_ascii) : TextRepr(text);
  }

  void NewLine() {
    if (!style_.multiline) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  // Writes `parts` between `open` and `close`; `write` writes one of them.
  template <class Parts, class WritePart>
  Status WriteParts(char open, char close, const Parts& parts, const WritePart& write) {
    out_ += open;
    ++level_;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      BUTTRESS_RETURN_IF_ERROR(write(parts[i]));
    }
    --level_;
    if (!parts.empty()) NewLine();
    out_ += close;
    return OkStatus();
  }

  Status WriteList(const JinjaList& list) {
    const auto write = [this](const JinjaValue& item) { return Write(item); };
    if (json_ || !list.tuple) return WriteParts('[', ']', list.items, write);
    BUTTRESS_RETURN_IF_ERROR(WriteParts('(', ')', list.items, write));
    if (list.items.size() == 1) out_.insert(out_.size() - 1, ",");
    return OkStatus();
  }

  Status WriteDict(JinjaEntries entries) {
    if (style_.sort_keys) std::ranges::sort(entries, {}, &JinjaEntries::value_type::first);
    return WriteParts('{', '}', entries, [this](const auto& entry) {
      WriteText(entry.first);
      out_ += style_.key_separator;
      return Write(entry.second);
    });
  }

  const JinjaJsonStyle& style_;
  const bool json_;
  int level_ = 0;
  std::string out_;
};

Result<std::string> Written(const JinjaValue& value, const JinjaJsonStyle& style, bool json) {
  ValueWriter writer(style, json);
  BUTTRESS_RETURN_IF_ERROR(writer.Write(value));
  return std::move(writer).Finish();
}

}  // namespace

Result<std::string> JinjaToText(const JinjaValue& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return std::string();
  return Written(value, {}, /*json=*/false);
}

Result<std::string> JinjaToJson(const JinjaValue& value, const JinjaJsonStyle& style) {
  return Written(value, style, /*json=*/true);
}

}  // namespace buttress
