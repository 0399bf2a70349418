#include "lib/jinja/lexer.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lib/base/text/unicode.h"
#include "lib/jinja/text.h"

namespace buttress {
namespace {

using TokenKind = JinjaToken::Kind;

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Converts line ends to \n and removes one at the end of the source.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class JinjaLexer {
 public:
  explicit JinjaLexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  Result<std::vector<JinjaToken>> Run() {
    while (!rest_.empty()) {
      const std::size_t open = FindTag();
      if (open == std::string_view::npos) {
        AddText(rest_);
        Skip(rest_.size());
        break;
      }
      BUTTRESS_RETURN_IF_ERROR(LexTag(open));
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::size_t FindTag() const {
    for (std::size_t at = rest_.find('{'); at != std::string_view::npos;
         at = rest_.find('{', at + 1)) {
      const char next = at + 1 < rest_.size() ? rest_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  // Appends the text before a tag, trimmed as the sign of the tag demands.
  std::string_view TextBefore(std::size_t open, char sign, bool is_output) const {
    const std::string_view text = rest_.substr(0, open);
    if (sign == '-') return StripTextRight(text);
    if (sign == '+' || is_output) return text;
    const std::size_t line_end = text.rfind('\n');
    const std::size_t line = line_end == std::string_view::npos ? 0 : line_end + 1;
    if ((line > 0 || at_line_start_) && StripTextRight(text.substr(line)).empty()) {
      return text.substr(0, line);
    }
    return text;
  }

  Status LexTag(std::size_t open) {
    const char type = rest_[open + 1];
    char sign = open + 2 < rest_.size() ? rest_[open + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    AddText(TextBefore(open, sign, type == '{'));
    Skip(open);
    const int line = line_;
    Skip(sign == '\0' ? 2 : 3);
    at_line_start_ = false;
    if (type == '#') return SkipComment(line);
    if (type == '%' && StartsRaw()) return LexRaw(line);
    Add(type == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, "");
    return LexExpression(type, line);
  }

  // Skips the end of a tag and the white space that it removes: all of it after '-', one line end
  // after a block or a comment.
  bool SkipTagEnd(char type) {
    const char closing[3] = {type == '{' ? '}' : type, '}', '\0'};
    const bool minus = rest_.starts_with('-') && rest_.substr(1).starts_with(closing);
    const bool plus = type != '{' && rest_.starts_with('+') && rest_.substr(1).starts_with(closing);
    if (!minus && !plus && !rest_.starts_with(closing)) return false;
    Skip(minus || plus ? 3 : 2);
    const std::string_view before = rest_;
    if (minus) {
      Skip(rest_.size() - StripTextLeft(rest_).size());
    } else if (!plus && type != '{' && rest_.starts_with('\n')) {
      Skip(1);
    }
    at_line_start_ =
        before.size() > rest_.size() && before[before.size() - rest_.size() - 1] == '\n';
    return true;
  }

  Status SkipComment(int line) {
    const std::size_t end = rest_.find("#}");
    if (end == std::string_view::npos) return JinjaErrorAt(line, "a comment without its end '#}'");
    const bool signed_end = end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+');
    Skip(signed_end ? end - 1 : end);
    SkipTagEnd('#');
    return OkStatus();
  }

  // Returns whether a raw block follows: a tag with `raw` alone.
  bool StartsRaw() const {
    std::string_view tag = StripTextLeft(rest_);
    if (!tag.starts_with("raw")) return false;
    tag = StripTextLeft(tag.substr(3));
    return tag.starts_with("%}") || tag.starts_with("-%}");
  }

  Status LexRaw(int line) {
    Skip(rest_.find("%}") - (rest_[rest_.find("%}") - 1] == '-' ? 1 : 0));
    const bool minus = rest_.starts_with('-');
    Skip(minus ? 3 : 2);
    if (minus) Skip(rest_.size() - StripTextLeft(rest_).size());
    for (std::size_t open = rest_.find("{%"); open != std::string_view::npos;
         open = rest_.find("{%", open + 1)) {
      const char sign =
          open + 2 < rest_.size() && (rest_[open + 2] == '-' || rest_[open + 2] == '+')
              ? rest_[open + 2]
              : '\0';
      std::string_view tag = StripTextLeft(rest_.substr(open + (sign == '\0' ? 2 : 3)));
      if (!tag.starts_with("endraw")) continue;
      tag = StripTextLeft(tag.substr(6));
      if (!tag.starts_with("%}") && !tag.starts_with("-%}") && !tag.starts_with("+%}")) continue;
      AddText(TextBefore(open, sign, /*is_output=*/false));
      Skip(rest_.size() - tag.size());
      SkipTagEnd('%');
      return OkStatus();
    }
    return JinjaErrorAt(line, "a raw block without its endraw");
  }

  Status LexExpression(char type, int line) {
    std::string brackets;  // that are open
    while (!rest_.empty()) {
      if (absl::ascii_isspace(rest_.front())) {
        Skip(1);
        continue;
      }
      if (brackets.empty() && SkipTagEnd(type)) {
        Add(type == '{' ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, "");
        return OkStatus();
      }
      BUTTRESS_RETURN_IF_ERROR(LexToken(brackets));
    }
    return JinjaErrorAt(line,
                        std::string("a tag without its end '") + (type == '{' ? "}}'" : "%}'"));
  }

  Status LexToken(std::string& brackets) {
    const char c = rest_.front();
    if (absl::ascii_isdigit(c)) return LexNumber();
    if (c == '"' || c == '\'') return LexString();
    if (IsNameStart(c)) {
      std::size_t size = 1;
      while (size < rest_.size() && (IsNameStart(rest_[size]) || absl::ascii_isdigit(rest_[size])))
        ++size;
      AddAndSkip(TokenKind::kName, size);
      return OkStatus();
    }
    static constexpr std::array<std::string_view, 6> kLong = {"**", "//", "==", "!=", "<=", ">="};
    static constexpr std::string_view kShort = "+-*/%~[](){}<>=.:|,";
    const auto* const two = std::find(kLong.begin(), kLong.end(), rest_.substr(0, 2));
    if (two == kLong.end() && kShort.find(c) == std::string_view::npos) {
      const std::size_t length = CodePointAt(rest_, 0).length;
      return JinjaErrorAt(line_,
                          "unexpected character '" + std::string(rest_.substr(0, length)) + "'");
    }
    if (c == '(' || c == '[' || c == '{') brackets += c;
    if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets.empty() || brackets.back() != open) {
        return JinjaErrorAt(line_, std::string("unexpected '") + c + "'");
      }
      brackets.pop_back();
    }
    AddAndSkip(TokenKind::kOperator, two == kLong.end() ? 1 : 2);
    return OkStatus();
  }

  std::size_t DigitsFrom(std::size_t at) const {
    while (at < rest_.size() && absl::ascii_isdigit(rest_[at])) ++at;
    return at;
  }

  Status LexNumber() {
    const std::size_t whole = DigitsFrom(0);
    std::size_t end = whole;
    // After a dot, as in items.0.1, each run of digits is an index.
    const bool is_index = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                          tokens_.back().text == ".";
    const auto is = [&](std::size_t at, std::string_view any) {
      return at < rest_.size() && any.find(rest_[at]) != std::string_view::npos;
    };
    if (!is_index && is(end, ".") && DigitsFrom(end + 1) > end + 1) end = DigitsFrom(end + 1);
    if (!is_index && is(end, "eE")) {
      const std::size_t digits = end + (is(end + 1, "+-") ? 2 : 1);
      if (DigitsFrom(digits) > digits) end = DigitsFrom(digits);
    }
    const bool leading_zero = end == whole && whole > 1 && rest_[0] == '0';
    if (leading_zero || (end < rest_.size() && (IsNameStart(rest_[end])))) {
      return JinjaErrorAt(line_, "number '" + std::string(rest_.substr(0, end + 1)) +
                                     "' is not supported; decimal digits are");
    }
    AddAndSkip(end == whole ? TokenKind::kInteger : TokenKind::kFloat, end);
    return OkStatus();
  }

  Status LexString() {
    const char quote = rest_.front();
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return JinjaErrorAt(line_, "a text without its closing quote");
    Result<std::string> text = UnescapeText(rest_.substr(1, end - 1));
    if (!text.ok()) return JinjaErrorAt(line_, text.status().message());
    Add(TokenKind::kString, *std::move(text));
    Skip(end + 1);
    return OkStatus();
  }

  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void AddAndSkip(TokenKind kind, std::size_t size) {
    Add(kind, std::string(rest_.substr(0, size)));
    Skip(size);
  }

  void AddText(std::string_view text) {
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
  }

  void Skip(std::size_t size) {
    const std::string_view skipped = rest_.substr(0, size);
    line_ += static_cast<int>(std::count(skipped.begin(), skipped.end(), '\n'));
    rest_.remove_prefix(skipped.size());
  }

  const std::string source_;
  std::string_view rest_;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

Status JinjaErrorAt(int line, const std::string& message) {
  return InvalidArgument(fmt::format("chat template, line {}: {}", line, message));
}

void JinjaTokenReader::FailUnexpected(const std::string& expected) {
  std::string found;
  switch (current().kind) {
    case TokenKind::kText:
      found = "text";
      break;
    case TokenKind::kOutputBegin:
      found = "'{{'";
      break;
    case TokenKind::kOutputEnd:
      found = "'}}'";
      break;
    case TokenKind::kBlockBegin:
      found = "'{%'";
      break;
    case TokenKind::kBlockEnd:
      found = "'%}'";
      break;
    case TokenKind::kEnd:
      found = "end of the template";
      break;
    default:
      found = "'" + current().text + "'";
  }
  Fail(line(), "unexpected " + found + "; " + expected + " is expected");
}

Result<std::vector<JinjaToken>> LexJinja(std::string_view source) {
  return JinjaLexer(NormalizeLines(source)).Run();
}

}  // namespace buttress
