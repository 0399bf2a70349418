#include "lib/verify/math/restated.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/verify/math/syntax/lexer.h"

namespace buttress {
namespace {

std::vector<MathToken> Lexed(std::string_view text) {
  Result<std::vector<MathToken>> tokens = LexMath(text, CommaReading::kThousands);
  if (!tokens.ok()) return {};
  tokens->pop_back();  // kEnd
  return *std::move(tokens);
}

bool IsMarkOf(const MathToken& token, std::string_view marks) {
  return token.kind == MathTokenKind::kMark && token.text.size() == 1 &&
         marks.find(token.text[0]) != std::string_view::npos;
}

bool IsNumeral(const MathToken& token) { return token.kind == MathTokenKind::kNumber; }

// Returns whether the tokens are one number with a sign, a currency or a unit.
bool IsOneNumeral(const std::vector<MathToken>& tokens) {
  if (std::ranges::count_if(tokens, IsNumeral) != 1) return false;
  return std::ranges::all_of(tokens, [](const MathToken& token) {
    return IsNumeral(token) || token.kind == MathTokenKind::kWord || IsMarkOf(token, "-+{}%");
  });
}

// Returns whether the tokens are an expression of numbers alone, with an operation.
bool IsComputation(const std::vector<MathToken>& tokens) {
  bool operates = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const MathToken& token = tokens[i];
    if (token.kind == MathTokenKind::kCommand) {
      if (token.text != "frac" && token.text != "sqrt" && token.text != "binom") return false;
      operates = true;
    } else if (token.kind == MathTokenKind::kMark) {
      if (!IsMarkOf(token, "+-*/^!(){}")) return false;
      operates = operates || IsMarkOf(token, "*/^!+") || (i > 0 && IsMarkOf(token, "-"));
    } else if (!IsNumeral(token)) {
      return false;
    }
  }
  return operates;
}

// Returns whether the tokens are n/m or \frac{n}{m}.
bool IsFraction(const std::vector<MathToken>& tokens) {
  return std::ranges::count_if(tokens, IsNumeral) == 2 &&
         std::ranges::all_of(tokens, [](const MathToken& token) {
           return IsNumeral(token) || IsMarkOf(token, "-/{}") || token.text == "frac";
         });
}

// Returns the text without blanks and what only typesets, with * and / for all their signs.
std::string Plain(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
      {"\\cdot", "*"}, {"\\times", "*"}, {"×", "*"},
      {"·", "*"},      {"⋅", "*"},       {"\\div", "/"},
      {"÷", "/"},      {"−", "-"},       {"\\dfrac", "\\frac"},
      {"\\left", ""},  {"\\right", ""},  {"\\tfrac", "\\frac"},
      {"\\,", ""},     {"\\(", ""},      {"\\)", ""},
      {"\\[", ""},     {"\\]", ""},      {"**", "^"}};
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    const auto* const sign = std::ranges::find_if(
        kSigns, [&](const auto& pair) { return text.substr(i).starts_with(pair.first); });
    if (sign != std::end(kSigns)) {
      plain += sign->second;
      i += sign->first.size();
      continue;
    }
    const char c = text[i++];
    if (!absl::ascii_isspace(c) && std::string_view("${}").find(c) == std::string_view::npos)
      plain.push_back(c);
  }
  return plain;
}

// Returns whether `part` stands in `whole`, not as a part of longer numbers.
bool Holds(std::string_view whole, std::string_view part) {
  const auto goes_on = [&](std::size_t i) { return absl::ascii_isdigit(whole[i]); };
  for (std::size_t at = whole.find(part); at != std::string_view::npos;
       at = whole.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool before = at > 0 && (goes_on(at - 1) || whole[at - 1] == '.');
    if (!before && (end == whole.size() || !goes_on(end))) return true;
  }
  return false;
}

}  // namespace

bool LeavesComputation(std::string_view given, std::string_view gold) {
  const std::vector<MathToken> tokens = Lexed(given);
  const std::vector<MathToken> other = Lexed(gold);
  if (!IsComputation(tokens) || !IsOneNumeral(other)) return false;
  const bool whole = std::ranges::find_if(other, IsNumeral)->value.get_den() == 1;
  const bool powers =
      std::ranges::any_of(tokens, [](const MathToken& token) { return IsMarkOf(token, "^"); });
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    if (!IsNumeral(tokens[i - 1]) || !IsNumeral(tokens[i + 1])) continue;
    const bool notation = powers && tokens[i + 1].value == 10;
    if (IsMarkOf(tokens[i], "+-*") && !notation) return true;
    if (IsMarkOf(tokens[i], "/") && whole && !powers) return true;
  }
  return false;
}

bool RepeatsQuestion(std::string_view given, std::string_view gold, std::string_view prompt) {
  if (prompt.empty()) return false;
  const std::vector<MathToken> tokens = Lexed(given);
  if (!IsComputation(tokens)) return false;
  const std::vector<MathToken> other = Lexed(gold);
  if (!IsOneNumeral(other) && (IsFraction(tokens) || other.size() >= tokens.size())) return false;
  const std::string question = Plain(prompt);
  const std::string shorter = Plain(gold);
  return Holds(question, Plain(given)) && (shorter.empty() || !Holds(question, shorter));
}

}  // namespace buttress
