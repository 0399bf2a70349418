#include "lib/verify/math/node_reader.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/syntax/parser.h"

namespace buttress {
namespace {

constexpr std::string_view kTextPrefixes[] = {"\\text{",   "\\textbf{", "\\textrm{", "\\mathrm{",
                                              "\\mathbf{", "\\mbox{",   "\\bold{"};
constexpr std::string_view kChoiceWords[] = {"option ", "choice ", "answer "};
constexpr char kLastChoice = 'J';

bool Skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Moves past a command that typesets the following text. Returns whether there was one.
bool SkipTextCommand(std::string_view& text) {
  return std::any_of(std::begin(kTextPrefixes), std::end(kTextPrefixes),
                     [&](std::string_view command) { return Skip(text, command); });
}

void SkipBlanks(std::string_view& text) {
  while (Skip(text, " ") || Skip(text, "\\ ") || Skip(text, "~") || Skip(text, "\\quad") ||
         Skip(text, "\\,")) {
  }
}

bool SkipChoiceWord(std::string_view& text) {
  for (const std::string_view word : kChoiceWords) {
    const std::string_view start = text.substr(0, word.size());
    const bool same = std::equal(
        start.begin(), start.end(), word.begin(), word.end(),
        [](char a, char b) { return a == b || (absl::ascii_isupper(a) && a - 'A' + 'a' == b); });
    if (same) return text.remove_prefix(word.size()), true;
  }
  return false;
}

// Returns the text without enclosing dollars.
std::string_view Bare(std::string_view text) {
  text = Trim(text);
  while (text.size() > 1 && text.front() == '$' && text.back() == '$')
    text = Trim(text.substr(1, text.size() - 2));
  return text;
}

int DigitValue(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  return absl::ascii_isupper(c) ? c - 'A' + 10 : 36;
}

// Reads "A3F_{16}" or "\text{2E}_{16}": at least one letter, and a base above every digit and at
// most 36.
std::optional<MathNode> ReadBasedNumeral(std::string_view answer) {
  std::string_view text = Bare(answer);
  const bool in_text = SkipTextCommand(text);
  const bool bracket = Skip(text, "(");
  const auto* const end =
      std::find_if(text.begin(), text.end(), [](char c) { return DigitValue(c) == 36; });
  const std::string digits(text.begin(), end);
  text.remove_prefix(digits.size());
  if (digits.empty() || !std::any_of(digits.begin(), digits.end(), absl::ascii_isupper))
    return std::nullopt;
  if ((bracket && !Skip(text, ")")) || (in_text && !Skip(text, "}")) || !Skip(text, "_"))
    return std::nullopt;
  const bool brace = Skip(text, "{");
  int base = 0;
  std::size_t length = 0;
  while (length < text.size() && length < 2 && absl::ascii_isdigit(text[length]))
    base = 10 * base + (text[length++] - '0');
  text.remove_prefix(length);
  if ((brace && !Skip(text, "}")) || !text.empty() || base > 36) return std::nullopt;
  const auto below = [base](char c) { return DigitValue(c) < base; };
  if (!std::all_of(digits.begin(), digits.end(), below)) return std::nullopt;
  return MakeNode(MathKind::kBased, {MakeNumber(base)}, digits);
}

// Reads "1 234 567".
std::optional<MathNode> ReadSpacedNumber(std::string_view answer) {
  const std::string_view text = Bare(answer);
  const std::size_t first = std::min(text.find(' '), text.size());
  if (first == 0 || first > 3 || (text.size() - first) % 4 != 0 || first == text.size())
    return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool blank = i >= first && (i - first) % 4 == 0;
    if (blank ? text[i] != ' ' : !absl::ascii_isdigit(text[i])) return std::nullopt;
    if (!blank) digits.push_back(text[i]);
  }
  const auto value = ParseDecimal(digits);
  return value ? std::optional(MakeNumber(*value)) : std::nullopt;
}

}  // namespace

std::optional<LabelledChoice> ReadChoice(std::string_view answer) {
  std::string_view text = Bare(answer);
  bool in_text = SkipTextCommand(text);
  SkipBlanks(text);
  const bool word = SkipChoiceWord(text);
  const bool bracket = Skip(text, "(");
  if (text.empty() || text.front() < 'A' || text.front() > kLastChoice) return std::nullopt;
  const char letter = text.front();
  text.remove_prefix(1);
  const bool closed = Skip(text, ")");
  if (bracket != closed && bracket) return std::nullopt;
  const bool marked = Skip(text, ":") || Skip(text, ".");
  if (in_text && Skip(text, "}")) in_text = false;
  const bool blank =
      text.empty() || text.front() == ' ' || text.front() == '\\' || text.front() == '$';
  if (!word && !closed && !(marked && blank)) return std::nullopt;
  if (word && !blank && !closed) return std::nullopt;
  SkipBlanks(text);
  if (in_text && text.ends_with('}')) text.remove_suffix(1);
  text = Trim(text);
  if (!closed && word && !text.empty() && !marked) return std::nullopt;  // "Choice B is wrong"
  return LabelledChoice{letter, std::string(text)};
}

MathNode AsText(std::string_view source) {
  std::string text;
  for (const char c : source) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '$') text.push_back(c);
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

Result<MathNode> ReadNode(std::string_view text, CommaReading commas) {
  if (auto numeral = ReadBasedNumeral(text)) return *std::move(numeral);
  if (auto number = ReadSpacedNumber(text)) return *std::move(number);
  const auto choice = ReadChoice(text);
  if (!choice) return ParseMath(text, commas);
  MathNode letter = MakeSymbol(std::string(1, choice->letter));
  if (choice->text.empty()) return letter;
  Result<MathNode> behind = ParseMath(choice->text, commas);
  return MakeNode(MathKind::kChoice, {behind.ok() ? *std::move(behind) : AsText(choice->text)},
                  std::move(letter.text));
}

}  // namespace buttress
