#include "lib/verify/math/syntax/lexer.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

constexpr std::string_view kSeparators[] = {",\\!", "{,}\\!", "{,}", "\\!,\\!", "\\!,", "\\,"};
constexpr std::string_view kOverline = "\\overline{";
constexpr int kMaxTenPower = 300;

std::size_t SkipDigits(std::string_view text, std::size_t at) {
  while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
  return at;
}

// Returns the end of the thousands separator at `at`, which exactly three digits must follow; `at`
// if there is none.
std::size_t SkipSeparator(std::string_view text, std::size_t at, CommaReading commas) {
  const auto ends = [&](std::string_view separator) {
    const std::size_t begin = at + separator.size();
    return text.substr(at).starts_with(separator) && SkipDigits(text, begin) == begin + 3;
  };
  for (const std::string_view separator : kSeparators) {
    if (ends(separator)) return at + separator.size();
  }
  if (commas == CommaReading::kDecimal && ends(".")) return at + 1;  // 1.234,5
  return commas == CommaReading::kThousands && ends(",") ? at + 1 : at;
}

// Returns the end of the decimal point at `at`, which a digit must follow; `at` if there is none.
std::size_t SkipPoint(std::string_view text, std::size_t at, CommaReading commas) {
  for (const std::string_view point : {".", "{,}", ","}) {
    if (point == "," && commas != CommaReading::kDecimal) continue;
    const std::size_t behind = at + point.size();
    const bool digit = behind < text.size() && absl::ascii_isdigit(text[behind]);
    const bool repeats =
        point == "." && text.substr(std::min(behind, text.size())).starts_with(kOverline);
    if (text.substr(at).starts_with(point) && (digit || repeats)) return behind;
  }
  return at;
}

Rational TenTo(std::size_t power) {
  mpz_class value;
  mpz_ui_pow_ui(value.get_mpz_t(), 10, power);
  return value;
}

// Adds the repetend of "0.1\overline{6}" at `number.end`.
void ReadPeriod(std::string_view text, ReadNumber& number) {
  if (number.decimals < 0 || !text.substr(number.end).starts_with(kOverline)) return;
  const std::size_t begin = number.end + kOverline.size();
  const std::size_t end = SkipDigits(text, begin);
  if (end == begin || end - begin > kMaxDigits || end == text.size() || text[end] != '}') return;
  const auto period = ParseDecimal(text.substr(begin, end - begin));
  if (!period) return;
  number.value +=
      *period / (TenTo(static_cast<std::size_t>(number.decimals)) * (TenTo(end - begin) - 1));
  number.decimals = -1;
  number.end = end + 1;
}

// Multiplies by the power of ten of "1.5e3".
void ReadTenPower(std::string_view text, ReadNumber& number) {
  std::size_t at = number.end;
  if (at == text.size() || (text[at] != 'e' && text[at] != 'E')) return;
  ++at;
  const bool negative = at < text.size() && text[at] == '-';
  if (at < text.size() && (negative || text[at] == '+')) ++at;
  const std::size_t end = SkipDigits(text, at);
  if (end == at || end - at > 3) return;
  const int power = std::stoi(std::string(text.substr(at, end - at)));
  if (power > kMaxTenPower) return;
  const Rational ten = TenTo(static_cast<std::size_t>(power));
  number.value = negative ? Rational(number.value / ten) : Rational(number.value * ten);
  number.decimals = -1;
  number.end = end;
}

// Returns the end of the "th" of 7th, 7^{th} or 7\\text{th} at `at`, or `at` if there is none.
std::size_t SkipOrdinal(std::string_view text, std::size_t at) {
  std::size_t end = at;
  std::size_t braces = 0;
  for (const std::string_view mark : {"^", "{", "\\text{", "\\textrm{", "\\mathrm{"}) {
    if (!text.substr(end).starts_with(mark)) continue;
    end += mark.size();
    if (mark.ends_with('{')) ++braces;
  }
  const std::string_view suffix = text.substr(end, 2);
  if (suffix != "st" && suffix != "nd" && suffix != "rd" && suffix != "th") return at;
  for (end += 2; braces > 0; --braces) {
    if (end == text.size() || text[end++] != '}') return at;
  }
  return end < text.size() && absl::ascii_isalpha(text[end]) ? at : end;
}

constexpr std::string_view kTextCommands[] = {"text",   "mbox",       "textbf", "textit",
                                              "textrm", "textnormal", "textsf", "hbox"};
constexpr std::string_view kFontCommands[] = {"mathrm",       "mathbf",  "mathit",     "mathsf",
                                              "mathbb",       "mathcal", "boldsymbol", "bm",
                                              "operatorname", "rm",      "bf"};
constexpr std::string_view kSkippedWithArgument[] = {"phantom", "hspace", "vspace",   "label",
                                                     "tag",     "color",  "textcolor"};
constexpr std::string_view kArgumentCommands[] = {"frac", "sqrt", "binom", "overline"};

enum class Mode { kMath, kText, kFont };

constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '~'; }

template <class Table>
bool IsAmong(const Table& table, std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

// Returns whether a run of letters outside \text is a word instead of a product of symbols.
bool IsWordLike(std::string_view run) {
  if (run.size() >= 4 || run == "no" || run == "No") return true;
  if (run.size() < 3) return false;
  const bool capitalised =
      absl::ascii_isupper(run[0]) && !absl::ascii_isupper(run[1]) && !absl::ascii_isupper(run[2]);
  return capitalised || run.find_first_of("eiou") != std::string_view::npos;
}

// Recognises "/s" or "/s^2" without further letters: the unit in "10 m/s".
bool IsPerSecond(std::string_view text) {
  return text.starts_with("/s") && (text.size() == 2 || !absl::ascii_isalpha(text[2]));
}

class Lexer {
 public:
  explicit Lexer(CommaReading commas) : commas_(commas) {}

  Result<std::vector<MathToken>> Run(std::string_view text) {
    BUTTRESS_RETURN_IF_ERROR(Append(text, Mode::kMath, 0));
    Push(MathTokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // `nesting` counts levels of \text{...} and of replacements.
  Status Append(std::string_view text, Mode mode, int nesting) {
    if (nesting > 4) return InvalidArgument("text nested too deeply");
    std::size_t at = 0;
    while (at < text.size()) {
      const char c = text[at];
      if (IsSpace(c)) {
        spaced_ = true;
        ++at;
      } else if (StartsNumber(text, at)) {
        BUTTRESS_RETURN_IF_ERROR(AppendNumber(text, at));
      } else if (absl::ascii_isalpha(c)) {
        AppendLetters(text, at, mode);
      } else if (c == '\\') {
        BUTTRESS_RETURN_IF_ERROR(AppendCommand(text, at, nesting));
      } else if ((static_cast<unsigned char>(c) & 0x80) != 0) {
        BUTTRESS_RETURN_IF_ERROR(AppendCharacter(text, at, mode, nesting));
      } else {
        AppendMark(text, at);
      }
    }
    return OkStatus();
  }

  void Push(MathTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), {}, -1, std::exchange(spaced_, false)});
  }

  bool BehindNumber() const {
    if (tokens_.empty()) return false;
    const MathToken& last = tokens_.back();
    return last.kind == MathTokenKind::kNumber ||
           (last.kind == MathTokenKind::kWord && NumberWord(last.text));
  }

  // After a variable, letters continue the product.
  bool BehindValue() const {
    if (tokens_.empty()) return false;
    return tokens_.back().kind != MathTokenKind::kSymbol || tokens_.back().text == "pi";
  }

  Status AppendNumber(std::string_view text, std::size_t& at) {
    const CommaReading commas = depth_ > 0 ? CommaReading::kSeparator : commas_;
    BUTTRESS_ASSIGN_OR_RETURN(ReadNumber number, ReadNumberAt(text, at, commas));
    at = number.decimals < 0 ? SkipOrdinal(text, number.end) : number.end;
    tokens_.push_back({MathTokenKind::kNumber, std::move(number.digits), std::move(number.value),
                       number.decimals, std::exchange(spaced_, false)});
    return OkStatus();
  }

  // Reads the run of letters at `at`: a function, a word, or symbols.
  void AppendLetters(std::string_view text, std::size_t& at, Mode mode) {
    std::size_t end = at;
    const auto inside = [&](std::size_t i) {
      return absl::ascii_isalpha(text[i]) || (mode == Mode::kText && text[i] == '.');
    };
    while (end < text.size() && inside(end)) ++end;
    std::string run(text.substr(at, end - at));
    std::erase(run, '.');
    at = end;
    const std::string lower = LowerAscii(run);
    if (lower == "infinity" || lower == "inf") return Push(MathTokenKind::kSymbol, "infinity");
    const bool joint = (lower == "am" || lower == "pm" || lower == "to") && BehindNumber();
    if (lower == "and" || lower == "or" || lower == "of" || joint)
      return Push(MathTokenKind::kWord, lower);
    if (lower == "minus" || lower == "negative") return Push(MathTokenKind::kMark, "-");
    if (lower == "plus") return Push(MathTokenKind::kMark, "+");
    if (IsFunctionName(run)) return Push(MathTokenKind::kCommand, run);
    if (run.size() > 1 && IsGreek(run)) return Push(MathTokenKind::kSymbol, run);
    if (run.size() == 1) {
      const bool liter = run == "L" && BehindNumber();
      const bool word = (mode == Mode::kText && (!absl::ascii_isupper(run[0]) || liter)) ||
                        (run == "m" && spaced_ && BehindNumber() && IsPerSecond(text.substr(end)));
      return Push(word ? MathTokenKind::kWord : MathTokenKind::kSymbol, word ? lower : run);
    }
    const auto canonical = CanonicalUnit(lower);
    const bool code =
        canonical && IsCurrency(*canonical) && run.find_first_not_of(kUpper) == std::string::npos;
    const bool unit = canonical && (code || (BehindValue() && run == lower));
    if (mode != Mode::kMath || unit || IsWordLike(run)) return Push(MathTokenKind::kWord, lower);
    for (const char c : run) Push(MathTokenKind::kSymbol, std::string(1, c));
  }

  Status AppendCommand(std::string_view text, std::size_t& at, int nesting) {
    if (at + 1 == text.size()) return InvalidArgument("ends with a backslash");
    std::size_t end = at + 1;
    while (end < text.size() && absl::ascii_isalpha(text[end])) ++end;
    if (end == at + 1) ++end;
    const std::string_view full = text.substr(at + 1, end - at - 1);
    at = end;
    if (full == "\\") return Push(MathTokenKind::kMark, "\\\\"), OkStatus();
    if (full == "{" || full == "}") return PushBrace(full), OkStatus();
    if (full == "$") return Push(MathTokenKind::kMark, "$"), OkStatus();
    if (IsAmong(kTextCommands, full)) return AppendArgument(text, at, Mode::kText, nesting);
    if (full == "mathbb" && IsReals(text, at))
      return Push(MathTokenKind::kSymbol, "reals"), OkStatus();
    if (IsAmong(kFontCommands, full)) return AppendArgument(text, at, Mode::kFont, nesting);
    if (IsAmong(kSkippedWithArgument, full)) return ReadArgument(text, at).status();
    if (full == "begin" || full == "end") return AppendEnvironment(text, at, full);
    if (full == "boxed" || full == "fbox" || full == "cancel") return OkStatus();
    const std::string_view name = full.size() == 5 && full.ends_with("frac") && full != "pfrac"
                                      ? "frac"
                                  : full == "dbinom" || full == "tbinom" ? "binom"
                                                                         : full;
    if (IsAmong(kArgumentCommands, name) || IsFunctionName(name))
      return Push(MathTokenKind::kCommand, std::string(name)), OkStatus();
    if (name == "infty") return Push(MathTokenKind::kSymbol, "infinity"), OkStatus();
    if (IsGreek(name)) return Push(MathTokenKind::kSymbol, std::string(name)), OkStatus();
    if (const auto plain = PlainCommand(name)) {
      if (plain->empty()) return OkStatus();
      return Append(*plain, Mode::kMath, nesting + 1);
    }
    return InvalidArgument("unknown command \\" + std::string(full));
  }

  // Reads "{R}" or " R" after \mathbb and moves `at` past it.
  static bool IsReals(std::string_view text, std::size_t& at) {
    std::size_t end = at;
    while (end < text.size() && (IsSpace(text[end]) || text[end] == '{')) ++end;
    if (end == at || end == text.size() || text[end] != 'R') return false;
    ++end;
    if (text[at] == '{') {
      if (end == text.size() || text[end] != '}') return false;
      ++end;
    }
    at = end;
    return true;
  }

  void PushBrace(std::string_view brace) {
    depth_ += brace == "{" ? 1 : -1;
    Push(MathTokenKind::kMark, "\\" + std::string(brace));
  }

  // Returns the content of the braces at `at` and moves `at` past them.
  static Result<std::string_view> ReadArgument(std::string_view text, std::size_t& at) {
    while (at < text.size() && IsSpace(text[at])) ++at;
    if (at == text.size() || text[at] != '{') return std::string_view{};
    int depth = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '{') {
        ++depth;
      } else if (text[i] == '}' && --depth == 0) {
        const std::string_view inside = text.substr(at + 1, i - at - 1);
        at = i + 1;
        return inside;
      }
    }
    return InvalidArgument("a brace does not close");
  }

  Status AppendArgument(std::string_view text, std::size_t& at, Mode mode, int nesting) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string_view inside, ReadArgument(text, at));
    return Append(inside, mode, nesting + 1);
  }

  Status AppendEnvironment(std::string_view text, std::size_t& at, std::string_view command) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string_view name, ReadArgument(text, at));
    const bool begins = command == "begin";
    if (begins && name == "array") BUTTRESS_RETURN_IF_ERROR(ReadArgument(text, at).status());
    depth_ += begins ? 1 : -1;
    Push(MathTokenKind::kCommand, std::string(command) + ":" + std::string(name));
    return OkStatus();
  }

  Status AppendCharacter(std::string_view text, std::size_t& at, Mode mode, int nesting) {
    const unsigned lead = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    const std::string_view character = text.substr(at, bytes);
    bool raised = false;
    if (RaisedOrLowered(character, raised)) return AppendRaisedOrLowered(text, at, raised, nesting);
    at += character.size();
    if (const auto plain = PlainCharacter(character)) return Append(*plain, mode, nesting + 1);
    if (character == "∞") return Push(MathTokenKind::kSymbol, "infinity"), OkStatus();
    Push(MathTokenKind::kMark, std::string(character));
    return OkStatus();
  }

  // Reads the run of "¹²" or "₁₂" at `at` as ^{12} or _{12}.
  Status AppendRaisedOrLowered(std::string_view text, std::size_t& at, bool raised, int nesting) {
    std::string plain = raised ? "^{" : "_{";
    while (at < text.size()) {
      const std::size_t bytes = (static_cast<unsigned char>(text[at]) & 0xf0) == 0xe0 ? 3 : 2;
      bool is_raised = false;
      const auto character = RaisedOrLowered(text.substr(at, bytes), is_raised);
      if (!character || is_raised != raised) break;
      plain.push_back(*character);
      at += bytes;
    }
    return Append(plain + "}", Mode::kMath, nesting + 1);
  }

  void AppendMark(std::string_view text, std::size_t& at) {
    const char c = text[at];
    if (text.substr(at).starts_with("+/-")) {
      at += 3;
      return Push(MathTokenKind::kMark, "±");
    }
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    const bool factorial =  // 3!=6; x!=6 is x ≠ 6
        c == '!' && at > 0 && (absl::ascii_isdigit(text[at - 1]) || text[at - 1] == ')');
    at += 1;
    if (c == '$' || c == '`' || c == '"') return;  // of Markdown and LaTeX
    if (c == '.') return;                          // a full stop; decimal points belong to numbers
    if (c == '(' || c == '[') ++depth_;
    if (c == ')' || c == ']') --depth_;
    const bool pair = next == '=' && (c == '<' || c == '>' || c == '=' || (c == '!' && !factorial));
    const bool power = c == '*' && next == '*';
    if (pair || power) at += 1;
    const std::string_view mark = power              ? "^"
                                  : pair && c == '<' ? "≤"
                                  : pair && c == '>' ? "≥"
                                  : pair && c == '!' ? "≠"
                                                     : std::string_view(&c, 1);
    Push(MathTokenKind::kMark, std::string(mark));
  }

  CommaReading commas_;
  std::vector<MathToken> tokens_;
  bool spaced_ = false;
  int depth_ = 0;  // of brackets
};

}  // namespace

bool StartsNumber(std::string_view text, std::size_t at) {
  return absl::ascii_isdigit(text[at]) ||
         (text[at] == '.' && at + 1 < text.size() && absl::ascii_isdigit(text[at + 1]));
}

Result<ReadNumber> ReadNumberAt(std::string_view text, std::size_t at, CommaReading commas) {
  ReadNumber number;
  std::size_t end = SkipDigits(text, at);
  number.digits = text.substr(at, end - at);
  if (end - at >= 1 && end - at <= 3) {
    for (std::size_t next = SkipSeparator(text, end, commas); next != end;
         next = SkipSeparator(text, end, commas)) {
      number.digits += text.substr(next, 3);
      end = next + 3;
    }
  }
  const std::size_t behind_point = SkipPoint(text, end, commas);
  if (behind_point != end) {
    end = SkipDigits(text, behind_point);
    number.decimals = static_cast<int>(end - behind_point);
    if (end > behind_point) number.digits += ".";
    number.digits += text.substr(behind_point, end - behind_point);
  }
  const auto value = ParseDecimal(number.digits.empty() ? "0" : number.digits);
  if (!value)
    return InvalidArgument("a number of more than " + std::to_string(kMaxDigits) + " digits");
  number.value = *value;
  number.end = end;
  ReadPeriod(text, number);
  ReadTenPower(text, number);
  return number;
}

Result<std::vector<MathToken>> LexMath(std::string_view text, CommaReading commas) {
  return Lexer(commas).Run(text);
}

}  // namespace buttress
