#include "lib/chat/python_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameByte(char c) {
  return c == '_' || c == '.' || IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The length of the code that follows \x, \u and \U, in digits; 0 for other letters.
std::size_t HexDigits(char c) { return c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; }

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }

  Status Calls(std::vector<ToolCall>& calls) {
    BUTTRESS_RETURN_IF_ERROR(Expect('['));
    while (!Take(']')) {
      ToolCall& call = open_;
      call = {std::string(Name()), ordered_json::object()};
      if (call.name.empty()) return Wrong("the name of a function");
      BUTTRESS_RETURN_IF_ERROR(Arguments(call.arguments));
      calls.push_back(std::move(call));
      if (!Take(',')) return Expect(']');
    }
    return OkStatus();
  }

  Result<ordered_json> Literal() {
    SkipSpace();
    BUTTRESS_ASSIGN_OR_RETURN(ordered_json value, Value(1));
    SkipSpace();
    return at_ == text_.size() ? Result<ordered_json>(std::move(value)) : Wrong("its end");
  }

  std::string_view Name() {
    SkipSpace();
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    return IsDigit(begin < at_ ? text_[begin] : '0') ? "" : text_.substr(begin, at_ - begin);
  }

  bool Take(char c) {
    SkipSpace();
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found ? 1 : 0;
    return found;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }

  Status Wrong(std::string_view expected) const {
    return InvalidArgument(fmt::format("at byte {}: expected {}", at_, expected));
  }

  Status Expect(char c) { return Take(c) ? OkStatus() : Wrong(std::string("'") + c + "'"); }

  Status Arguments(ordered_json& arguments) {
    BUTTRESS_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      const std::string name(Name());
      if (name.empty()) return Wrong("the name of an argument");
      BUTTRESS_RETURN_IF_ERROR(Expect('='));
      BUTTRESS_ASSIGN_OR_RETURN(arguments[name], Value(1));
      if (!Take(',')) return Expect(')');
    }
    return OkStatus();
  }

  Result<ordered_json> Value(int depth) {
    if (depth > kMaxJsonDepth) return Wrong("values that are nested less deeply");
    if (Take('[')) return List(']', depth);
    if (Take('(')) return List(')', depth);
    if (Take('{')) return Dictionary(depth);
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"' || c == '\'') return Text();
    if (IsDigit(c) || c == '-' || c == '+' || c == '.') return Number();
    const std::string_view word = Name();
    if (word == "True" || word == "False") return ordered_json(word == "True");
    if (word == "None") return ordered_json();
    return Wrong("a literal");
  }

  Result<ordered_json> List(char end, int depth) {
    ordered_json list = ordered_json::array();
    while (!Take(end)) {
      BUTTRESS_ASSIGN_OR_RETURN(ordered_json value, Value(depth + 1));
      list.push_back(std::move(value));
      if (Take(',')) continue;
      BUTTRESS_RETURN_IF_ERROR(Expect(end));
      break;
    }
    return list;
  }

  Result<ordered_json> Dictionary(int depth) {
    ordered_json object = ordered_json::object();
    while (!Take('}')) {
      BUTTRESS_ASSIGN_OR_RETURN(const ordered_json key, Value(depth + 1));
      if (!key.is_string()) return Wrong("a text as the key before it");
      BUTTRESS_RETURN_IF_ERROR(Expect(':'));
      BUTTRESS_ASSIGN_OR_RETURN(object[key.get<std::string>()], Value(depth + 1));
      if (Take(',')) continue;
      BUTTRESS_RETURN_IF_ERROR(Expect('}'));
      break;
    }
    return object;
  }

  Result<ordered_json> Number() {
    const std::size_t begin = at_ + (text_[at_] == '+' ? 1 : 0);
    while (at_ < text_.size() && (IsNameByte(text_[at_]) || text_[at_] == '-' || text_[at_] == '+'))
      ++at_;
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    std::int64_t whole = 0;
    const auto as_whole = std::from_chars(first, last, whole);
    if (as_whole.ec == std::errc() && as_whole.ptr == last) return ordered_json(whole);
    double real = 0;
    const auto as_real = std::from_chars(first, last, real);
    if (as_real.ec == std::errc() && as_real.ptr == last && std::isfinite(real))
      return ordered_json(real);
    return Wrong("a number before it");
  }

  Result<ordered_json> Text() {
    const std::string_view quote = text_.substr(at_, 1);
    const bool triple = text_.substr(at_).starts_with(std::string(3, quote[0]));
    const std::string end(triple ? 3 : 1, quote[0]);
    std::string value;
    for (at_ += end.size(); !text_.substr(at_).starts_with(end);) {
      if (at_ >= text_.size()) return Wrong("the end of a text");
      if (text_[at_] != '\\') {
        value += text_[at_++];
      } else if (!Escape(value)) {
        return Wrong("an escape of Python");
      }
    }
    at_ += end.size();
    return ordered_json(std::move(value));
  }

  bool Escape(std::string& value) {
    constexpr std::string_view kLetters = "ntr\\'\"abfv0";
    constexpr std::string_view kMeanings("\n\t\r\\'\"\a\b\f\v\0", 11);
    if (at_ + 1 >= text_.size()) return false;
    const char letter = text_[at_ + 1];
    at_ += 2;
    if (letter == '\n') return true;
    if (const std::size_t digits = HexDigits(letter); digits > 0) {
      const std::string_view code = text_.substr(at_, digits);
      std::uint32_t point = 0;
      const auto read = std::from_chars(code.data(), code.data() + code.size(), point, 16);
      if (code.size() < digits || read.ptr != code.data() + digits) return false;
      at_ += digits;
      const bool valid = point < 0xD800 || (point > 0xDFFF && point < 0x110000);
      AppendUtf8(valid ? point : U'\uFFFD', value);
      return true;
    }
    const std::size_t found = kLetters.find(letter);
    value += found == std::string_view::npos ? std::string{'\\', letter}
                                             : std::string(1, kMeanings[found]);
    return true;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  ToolCall open_;  // that is read
};

}  // namespace

bool BeginsPythonCalls(std::string_view text) {
  PythonReader reader(text);
  return reader.Take('[') && !reader.Name().empty() && reader.Take('(');
}

Result<std::size_t> ReadPythonCalls(std::string_view text, std::vector<ToolCall>& calls) {
  PythonReader reader(text);
  BUTTRESS_RETURN_IF_ERROR(reader.Calls(calls));
  return reader.at();
}

Result<ordered_json> ReadPythonLiteral(std::string_view text) {
  return PythonReader(text).Literal();
}

}  // namespace buttress
