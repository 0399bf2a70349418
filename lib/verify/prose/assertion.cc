#include "lib/verify/prose/assertion.h"

#include <absl/strings/ascii.h>

#include <algorithm>

#include "lib/verify/extract.h"
#include "lib/verify/prose/clause.h"
#include "lib/verify/prose/prose.h"

namespace buttress {
namespace {

// Words that doubt the whole sentence, wherever they stand: "maybe", "not sure", "cannot find",
// "a chance that". A clause that concedes is left out: "though 6 seems right, it is 5".
bool DoubtsAll(ProseSpan tokens) {
  std::size_t i = 0;
  if (!tokens.empty() && OneOf(tokens[0], {"though", "although", "even", "while"}))
    while (i < tokens.size() && !IsSign(tokens[i], ",")) ++i;
  for (; i < tokens.size(); ++i) {
    if (Hedges(tokens, i)) return true;
    if (OneOf(tokens[i], {"chance", "possibility", "possible"}) && i + 1 < tokens.size() &&
        OneOf(tokens[i + 1], {"that", "it"}))
      return true;
    if (i > 1 && IsWord(tokens[i - 1], "to") && OneOf(tokens[i - 2], {"had", "hard"}) &&
        OneOf(tokens[i], {"pick", "choose", "bet", "believe"}))
      return true;
    if (IsWord(tokens[i], "according")) return true;
    const bool known = OneOf(tokens[i], {"sure", "certain", "idea", "clue", "find", "determine",
                                         "tell", "say", "know", "solve"});
    for (std::size_t back = 1; known && back <= std::min<std::size_t>(i, 3); ++back) {
      if (Denies(tokens, i - back)) return true;
    }
  }
  return false;
}

// Whether "or" stands between two values of the sentence; not in "half of 34, or 34/2 = 17".
bool OffersSeveral(const ProseAround& around) {
  const auto is_or = [](const ProseToken& token) { return IsWord(token, "or"); };
  const auto last = std::find_if(around.left.rbegin(), around.left.rend(), is_or);
  const bool restates = !around.left.empty() && IsSign(around.left.back(), "=") &&
                        around.left.size() > 1 &&
                        around.left.end()[-2].kind == ProseToken::Kind::kNumber;
  const auto numbers = [&](const ProseToken& token) {  // "when x = 2 or y = 3, the sum is 5"
    return IsValue(token) && (last == around.left.rbegin() || !IsSign(token, "≡"));
  };
  if (!restates && last != around.left.rend() && std::any_of(last, around.left.rend(), numbers))
    return true;
  const auto first = std::ranges::find_if(around.right, is_or);
  const bool others = first != around.right.begin() && first != around.right.end() &&
                      (IsValue(first[-1]) || IsWord(first[-1], "one"));  // "21 with one or two"
  return !others && std::any_of(first, around.right.end(), IsValue);
}

// Whether the equation behind "or" says another way what the one before it does: "24 = 2q or
// q = 12"; not "x = 2 or x = 12".
bool Restates(std::string_view text, std::string_view equation) {
  const auto left_side = [](std::string_view side) { return Trim(side.substr(0, side.find('='))); };
  const auto ends = [](std::string_view& before, std::string_view end) {
    before = Trim(before);
    if (!before.ends_with(end)) return false;
    before.remove_suffix(end.size());
    return true;
  };
  std::string_view before = text.substr(0, static_cast<std::size_t>(equation.data() - text.data()));
  if (!ends(before, "$") && !ends(before, "\\[") && !ends(before, "\\(")) return false;
  if (!ends(before, " or")) return false;
  ends(before, ",");
  if (!ends(before, "$") && !ends(before, "\\]")) return false;
  before.remove_prefix(before.find_last_of("$[") + 1);
  return before.find('=') != std::string_view::npos &&
         equation.find('=') != std::string_view::npos && left_side(before) != left_side(equation);
}

// Whether "or" before a computation says again what the words before it name: "a third of them, or
// $6/3 = 2$".
bool SaysAgain(ProseSpan left, std::string_view span) {
  return left.size() > 2 && IsWord(left.back(), "or") && IsSign(left.end()[-2], ",") &&
         !IsValue(left.end()[-3]) && span.find('=') != std::string_view::npos &&
         !absl::ascii_isalpha(span[0]);
}

// Whether the sentence goes on with a case that the one before supposes: "Suppose $x = 5$. Then".
bool IsSupposed(std::string_view text, std::string_view span, ProseSpan left) {
  if (left.empty() || !IsWord(left[0], "then")) return false;
  const std::size_t begin =
      SentenceBegin(text, static_cast<std::size_t>(span.data() - text.data()));
  if (begin < 2) return false;
  const std::size_t before = SentenceBegin(text, begin - 1);
  const std::vector<ProseToken> tokens = ReadProse(text.substr(before, begin - before));
  return !tokens.empty() && OneOf(tokens[0], {"suppose", "assume", "imagine"}) &&
         GivesValue(tokens);
}

bool Counts(ProseSpan right) {
  if (right.empty() || right[0].kind != ProseToken::Kind::kWord) return false;
  const std::string_view word = right[0].text;
  return word == "ways" || word == "way" || CanonicalUnit(word).has_value();
}

// Whether no word that could be a unit stands behind the value.
bool IsBare(ProseSpan right) {
  constexpr unsigned kNoUnit = kPhraseWord | kContrastWord | kVerbWord | kDenialWord;
  return right.empty() || (right[0].kind == ProseToken::Kind::kSign && right[0].text != "%") ||
         Has(right[0], kNoUnit);
}

// Whether the value is a number as prose has it, and not an expression or a word.
bool IsNumeral(std::string_view span) {
  return std::ranges::none_of(span, absl::ascii_isalpha) ||
         std::ranges::any_of(span, absl::ascii_isspace);
}

// Whether what stands behind a letter is the text of its option: "(B) $x^2$", "B: 12".
bool IsOptionText(std::string_view text, std::string_view letter, ProseSpan right) {
  std::string_view rest = text.substr(static_cast<std::size_t>(letter.data() - text.data()) + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of("*}"), rest.size()));
  if (rest.empty() || std::string_view("):.").find(rest[0]) == std::string_view::npos) return false;
  if (!right.empty() && IsSign(right[0], ":")) right = right.subspan(1);  // the mark itself
  if (right.empty()) return true;
  const ProseToken& next = right[0];
  constexpr unsigned kGoesOn =
      kCopulaWord | kContrastWord | kDenialWord | kHedgeWord | kModalWord | kPhraseWord;
  return !IsValue(next) && !IsSign(next, ",") && !IsSign(next, "/") && !Has(next, kGoesOn) &&
         !OneOf(next, {"and", "or"});
}

// Which part of its clause the value is: its first word but for "so" and the like, or the name of
// its first noun.
Subject SubjectOf(ProseSpan left) {
  bool named = false;
  while (!left.empty() && Has(left.back(), kPassiveWord | kSoWord | kMeasureWord) &&
         !Has(left.back(), kVerbWord)) {
    named = named || Has(left.back(), kMeasureWord);
    left = left.first(left.size() - 1);
  }
  if (!left.empty() && !IsSign(left.back(), ",")) return Subject::kNo;
  return named ? Subject::kNamed : Subject::kAlone;
}

// Whether the value numbers what follows: "5. Count the apples", "5) Count".
bool Enumerates(std::string_view text, std::string_view span) {
  const std::string_view rest =
      text.substr(static_cast<std::size_t>(span.data() + span.size() - text.data()));
  return rest.size() > 2 && (rest[0] == '.' || rest[0] == ')') && rest[1] == ' ' &&
         absl::ascii_isalpha(rest[2]);
}

// Whether the span is a date or a time of day, before which "on" or "at" may stand.
bool IsMoment(std::string_view span) {
  const std::size_t colon = span.find(':');
  if (colon != std::string_view::npos && colon > 0 && colon + 3 == span.size())
    return absl::ascii_isdigit(span[colon - 1]) && absl::ascii_isdigit(span[colon + 1]);
  std::size_t at = 0;
  while (at < span.size() && !absl::ascii_isalpha(span[at])) ++at;
  std::size_t end = at;
  while (end < span.size() && absl::ascii_isalpha(span[end])) ++end;
  return at < end && IsMonth(LowerAscii(span.substr(at, end - at)));
}

}  // namespace

Assertion ReadAssertion(std::string_view text, std::string_view span, bool equation,
                        ProseValues values) {
  ProseAround around = SentenceAround(text, span, values);
  if (values == ProseValues::kLetters && IsOptionText(text, span, around.right))
    around.right.clear();
  if (!around.left.empty() && OneOf(around.left.back(), {"on", "at", "by"}) && IsMoment(span)) {
    around.left.pop_back();  // "they meet on June 5"
    equation = true;
  }
  if (around.asks || (around.left.empty() && !equation && values == ProseValues::kNumbers &&
                      Enumerates(text, span)))
    return Assertion::kNone;
  const bool ordinal = !around.right.empty() && OneOf(around.right[0], {"st", "nd", "rd", "th"});
  if (ordinal && !around.left.empty() && !IsComputed(around.left)) {
    around.right.erase(around.right.begin());  // "came in 7th", not "the 7th term"
    if (around.right.empty() ? !IsWord(around.left.back(), "in")
                             : !IsWord(around.right[0], "place"))
      return Assertion::kNone;
  }
  if (IsSupposed(text, span, around.left)) return Assertion::kNone;
  const bool again = equation && SaysAgain(around.left, span);
  if (again) around.left.resize(around.left.size() - 2);
  const bool restates = equation && Restates(text, span);
  const Assertion left =
      ReadLeft(restates ? ProseSpan() : ProseSpan(around.left), ordinal || Counts(around.right),
               !ordinal && IsNumeral(span) && IsBare(around.right), equation);
  if (left != Assertion::kStated && left != Assertion::kNear) return left;
  const Assertion right = ReadRight(around.right, IsComputed(around.left), SubjectOf(around.left));
  if (right != Assertion::kStated && right != Assertion::kNear) return right;
  if ((!restates && !again && OffersSeveral(around)) || DoubtsAll(around.left) ||
      DoubtsAll(around.right))
    return Assertion::kOpen;
  return left == Assertion::kNear ? left : right;
}

}  // namespace buttress
