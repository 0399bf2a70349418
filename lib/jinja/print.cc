#include "lib/jinja/print.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

Status TooLong() {
  return ResourceExhausted("a text of more than " + std::to_string(kJinjaTextBytesMax) + " bytes");
}

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

void AppendHex(char32_t value, int digits, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += kDigits[(value >> static_cast<unsigned>(shift)) & 15U];
  }
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
      const int digits = c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8;
      out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
      AppendHex(c.value, digits, out);
    }
    at += c.length;
  }
  return out + quote;
}

Status AppendRepr(const JinjaValue& value, std::string& out);

Status AppendEntries(const std::vector<std::pair<std::string, JinjaValue>>& entries,
                     std::string& out) {
  out += '{';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ", ";
    out += TextRepr(entries[i].first) + ": ";
    BUTTRESS_RETURN_IF_ERROR(AppendRepr(entries[i].second, out));
  }
  out += '}';
  return OkStatus();
}

Status AppendItems(const JinjaList& list, std::string& out) {
  out += list.tuple ? '(' : '[';
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    BUTTRESS_RETURN_IF_ERROR(AppendRepr(list.items[i], out));
  }
  if (list.tuple && list.items.size() == 1) out += ',';
  out += list.tuple ? ')' : ']';
  return OkStatus();
}

// Returns Python's repr().
Status AppendRepr(const JinjaValue& value, std::string& out) {
  if (out.size() > kJinjaTextBytesMax) return TooLong();
  if (value.is_none()) {
    out += "None";
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.Is<bool>()) {
    out += value.As<bool>() ? "True" : "False";
  } else if (value.Is<std::int64_t>()) {
    out += std::to_string(value.As<std::int64_t>());
  } else if (value.Is<double>()) {
    out += FloatText(value.As<double>());
  } else if (value.is_text()) {
    out += TextRepr(value.text());
  } else if (value.is_list()) {
    return AppendItems(*value.As<std::shared_ptr<const JinjaList>>(), out);
  } else if (value.is_dict()) {
    return AppendEntries(value.entries(), out);
  } else {
    return InvalidArgument("a " + std::string(value.TypeName()) + " cannot be printed");
  }
  return OkStatus();
}

class JsonWriter {
 public:
  explicit JsonWriter(const JinjaJsonStyle& style) : style_(style) {}

  Status Write(const JinjaValue& value) {
    if (out_.size() > kJinjaTextBytesMax) return TooLong();
    if (value.is_none()) {
      out_ += "null";
    } else if (value.Is<bool>()) {
      out_ += value.As<bool>() ? "true" : "false";
    } else if (value.Is<std::int64_t>()) {
      out_ += std::to_string(value.As<std::int64_t>());
    } else if (value.Is<double>()) {
      WriteFloat(value.As<double>());
    } else if (value.is_text()) {
      WriteText(value.text());
    } else if (value.is_list()) {
      return WriteList(value.items());
    } else if (value.is_dict()) {
      return WriteDict(value.entries());
    } else {
      return InvalidArgument("a " + std::string(value.TypeName()) + " cannot be written as JSON");
    }
    return OkStatus();
  }

  std::string Finish() && { return std::move(out_); }

 private:
  void WriteFloat(double value) {
    if (std::isfinite(value)) {
      out_ += FloatText(value);
    } else {
      out_ += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    }
  }

  void WriteText(std::string_view text) {
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      WriteCharacter(c.value, text.substr(at, c.length));
      at += c.length;
    }
    out_ += '"';
  }

  void WriteCharacter(char32_t c, std::string_view utf8) {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    static constexpr std::string_view kEscapes = "\"\\nrtbf";
    const std::size_t escape =
        c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      out_ += '\\';
      out_ += kEscapes[escape];
    } else if (c >= 0x20 && (c < 0x7F || !style_.ensure_ascii)) {
      out_ += utf8;
    } else if (c < 0x10000) {
      out_ += "\\u";
      AppendHex(c, 4, out_);
    } else {
      out_ += "\\u";
      AppendHex(0xD800 + ((c - 0x10000) >> 10U), 4, out_);
      out_ += "\\u";
      AppendHex(0xDC00 + ((c - 0x10000) & 0x3FFU), 4, out_);
    }
  }

  void NewLine() {
    if (!style_.multiline) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  Status WriteList(const std::vector<JinjaValue>& items) {
    out_ += '[';
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      BUTTRESS_RETURN_IF_ERROR(Write(items[i]));
    }
    --level_;
    if (!items.empty()) NewLine();
    out_ += ']';
    return OkStatus();
  }

  Status WriteDict(std::vector<std::pair<std::string, JinjaValue>> entries) {
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    out_ += '{';
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      WriteText(entries[i].first);
      out_ += style_.key_separator;
      BUTTRESS_RETURN_IF_ERROR(Write(entries[i].second));
    }
    --level_;
    if (!entries.empty()) NewLine();
    out_ += '}';
    return OkStatus();
  }

  const JinjaJsonStyle& style_;
  int level_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> JinjaToText(const JinjaValue& value) {
  if (value.is_text()) return value.text();
  std::string out;
  if (value.is_undefined()) return out;
  BUTTRESS_RETURN_IF_ERROR(AppendRepr(value, out));
  return out;
}

Result<std::string> JinjaToJson(const JinjaValue& value, const JinjaJsonStyle& style) {
  JsonWriter writer(style);
  BUTTRESS_RETURN_IF_ERROR(writer.Write(value));
  return std::move(writer).Finish();
}

}  // namespace buttress
