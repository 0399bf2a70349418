// Verifier math: compares mathematical answers by meaning. equal.h defines when two answers are
// equal, and answer.h where they are found. The reference is read like a response, because it may
// be a whole solution.
#include <absl/strings/ascii.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/math/answer.h"
#include "lib/verify/math/equal.h"
#include "lib/verify/math/evaluate.h"
#include "lib/verify/math/restated.h"
#include "lib/verify/math/statement.h"
#include "lib/verify/math/syntax/parser.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// Answers outside the grammar of expressions are choices with a text after the letter, numerals
// with letters as digits, and numbers with blanks between thousands.
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

// A choice, A to J: "(C) 12", "\textbf{(C)}\ 12", "C: 12", "C. 12", "Option C", "C)".
struct LabelledChoice {
  char letter;
  std::string text;  // after the letter; may be empty
};

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

struct Answer {
  std::string anchor;
  std::string source;  // verbatim from the text
  MathNode node;
  std::size_t end = 0;  // of its place in the text
  bool near = false;    // the text calls it an approximation
};

// Returns whether the text has a comma between digits.
bool HoldsComma(std::string_view text) {
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == ',' && digit(i - 1) && digit(i + 1)) return true;
  }
  return false;
}

// Removes repeated members of several boxes: "2x, or x + x" is one answer.
void DropRepeated(MathNode& list, MathComparison& how) {
  if (list.kind != MathKind::kList) return;
  std::vector<MathNode> kept;
  for (MathNode& part : list.parts) {
    const auto same = [&](const MathNode& other) {
      return CompareMath(part, other, how) == Sameness::kSame;
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(part));
  }
  list.parts = std::move(kept);
}

// Returns a text node for an answer that no grammar reads. It equals answers with the same text.
MathNode AsText(std::string_view source) {
  std::string text;
  for (const char c : source) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '$') text.push_back(c);
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

// Returns whether words are part of the node: a text with a number, one of several words in a list,
// "Total = 5", "5 (in dollars)".
bool HoldsProse(const MathNode& node, bool in_list) {
  const auto is_text = [](const MathNode& part) { return part.kind == MathKind::kText; };
  switch (node.kind) {
    case MathKind::kText:
      return node.text.find_first_of("0123456789") != std::string::npos ||
             (in_list && node.text.find(' ') != std::string::npos);
    case MathKind::kList:
      return std::ranges::any_of(node.parts,
                                 [](const MathNode& part) { return HoldsProse(part, true); });
    case MathKind::kRelation:
    case MathKind::kRatio:
      return is_text(node.parts.front());
    case MathKind::kProduct:
      return std::ranges::any_of(node.parts, is_text);
    default:
      return false;
  }
}

// Returns whether the candidate is a sentence around a number. Such a sentence is not the answer
// itself, because the number may be.
bool IsSentence(const AnswerCandidate& candidate, const MathNode& node) {
  return candidate.anchor != "boxed" && HoldsProse(node, false);
}

// Parses a choice, a numeral with letters, or an expression.
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

std::optional<Answer> ReadAnswer(std::string_view text, bool truncated,
                                 const std::vector<std::string>& anchors, MathComparison& how) {
  std::vector<AnswerCandidate> candidates = FindAnswers(text, truncated, anchors);
  for (AnswerCandidate& candidate : candidates) {
    if (candidate.refused) continue;
    Result<MathNode> node = ReadNode(candidate.text, CommaReading::kThousands);
    if (!node.ok() || IsSentence(candidate, *node)) continue;
    if (candidate.joined) DropRepeated(*node, how);
    return Answer{std::move(candidate.anchor), std::move(candidate.text), *std::move(node),
                  candidate.end, candidate.near};
  }
  if (candidates.empty() || candidates.front().refused ||
      candidates.front().text.size() > kMaxAnswerBytes)
    return std::nullopt;
  AnswerCandidate& first = candidates.front();
  MathNode node = AsText(first.text);
  return Answer{std::move(first.anchor), std::move(first.text), std::move(node), first.end};
}

// Returns 997 of a + b = r/2 = 997 and t^7 of t^3 t^4 = t^7 outside of a box: a sentence may name
// what it computes. Null if two members of the chain are different numbers, and for an equation
// that is no identity, as y = 2x + 1 is not.
const MathNode* LastMember(const Answer& given, MathComparison& how) {
  const MathNode& node = given.node;
  const bool chain = given.anchor != "boxed" && node.kind == MathKind::kRelation &&
                     node.text.find_first_not_of('=') == std::string::npos;
  if (!chain || !HasFreeSymbols(node)) return nullptr;
  const MathNode& last = node.parts.back();
  const bool closed = !HasFreeSymbols(last);
  const auto agrees = [&](const MathNode& part) {
    if (closed && HasFreeSymbols(part)) return true;
    const Sameness sameness = CompareMath(part, last, how);
    return closed ? sameness != Sameness::kDifferent : sameness == Sameness::kSame;
  };
  return std::all_of(node.parts.begin(), node.parts.end() - 1, agrees) ? &last : nullptr;
}

// Returns the other readings of a comma between digits: "3,14" as 3.14, and "100,200" as two
// numbers. A comma that separates thousands is not a decimal point: 1,234 is not 1.234.
Sameness CompareReadings(const Answer& given, const Answer& gold, MathComparison& how) {
  const Sameness first = CompareMath(given.node, gold.node, how);
  if (first == Sameness::kSame || !how.lenient()) return first;
  if (const MathNode* last = LastMember(given, how)) {
    if (CompareMath(*last, gold.node, how) == Sameness::kSame) return Sameness::kSame;
  }
  const auto same = [&](const Answer& read, const Answer& other, bool is_given) {
    if (!HoldsComma(read.source)) return false;
    for (const CommaReading commas : {CommaReading::kSeparator, CommaReading::kDecimal}) {
      const bool decimal = commas == CommaReading::kDecimal;
      if (decimal && (other.node.kind == MathKind::kList || read.node.kind != MathKind::kList))
        continue;
      const Result<MathNode> node = ParseMath(read.source, commas);
      if (!node.ok()) continue;
      const Sameness one =
          is_given ? CompareMath(*node, other.node, how) : CompareMath(other.node, *node, how);
      if (one == Sameness::kSame) return true;
    }
    return false;
  };
  return same(given, gold, true) || same(gold, given, false) ? Sameness::kSame : first;
}

std::string Shown(const MathNode& node) {
  return std::string(FirstBytes(ToText(node), kShownBytes));
}

// Returns `anchors` followed by all other anchors, because a reference may be a bare answer
// regardless of the format that responses must have.
std::vector<std::string> WithTheRest(std::vector<std::string> anchors) {
  for (const std::string_view anchor : kMathAnchors) {
    if (std::find(anchors.begin(), anchors.end(), anchor) == anchors.end())
      anchors.emplace_back(anchor);
  }
  return anchors;
}

// Returns the number that the response gives for the answer behind `given`, if it is another one.
// Both have to be numbers and nothing else; mathematics and words are not compared.
std::optional<Restatement> FindContradiction(const VerifyRequest& request,
                                             const std::vector<std::string>& anchors,
                                             const Answer& given, MathComparison& how) {
  const bool first =
      given.anchor == "boxed" || given.anchor == "final answer is" || given.anchor == "####";
  if (!first || !PlainNumber(given.source)) return std::nullopt;
  auto later = FindRestatement(request.response, request.truncated, anchors, given.end);
  if (!later) return std::nullopt;
  const auto number = ReadNode(later->number, CommaReading::kThousands);
  if (!number.ok() || CompareMath(given.node, *number, how) == Sameness::kSame ||
      CompareMath(*number, given.node, how) == Sameness::kSame)
    return std::nullopt;
  return later;
}

// Returns whether the budget of steps is too small for the reference, whatever the response.
bool IsTooMuch(const Answer& gold, const MathComparison& how) {
  if (how.steps_left >= 0) return false;
  MathComparison alone{.mode = how.mode};
  CompareMath(gold.node, gold.node, alone);
  return alone.steps_left < 0;
}

bool HasDecimals(const MathNode& node) {
  return node.decimals >= 0 || std::ranges::any_of(node.parts, HasDecimals);
}

// Whether the node is x ≈ a.
bool IsApproximation(const MathNode& node) {
  return node.kind == MathKind::kRelation && node.text == "~" &&
         node.parts[0].kind == MathKind::kSymbol;
}

// Returns whether the response gives a value without decimals as an approximation: "about 5". A
// decimal says at which digit it is rounded.
bool IsTooVague(const Answer& given, const Answer& gold) {
  const bool near = given.near || IsApproximation(given.node);
  return near && !gold.near && !IsApproximation(gold.node) && !HasDecimals(given.node);
}

// Returns whether the response leaves to the verifier what it was asked to compute.
bool IsRestated(const Answer& given, const Answer& gold, std::string_view prompt,
                const MathComparison& how) {
  return (!how.lenient() && LeavesComputation(given.source, gold.source)) ||
         RepeatsQuestion(given.source, gold.source, prompt);
}

Verdict Compare(const Answer& given, const Answer& gold, MathComparison& how) {
  switch (CompareReadings(given, gold, how)) {
    case Sameness::kSame:
      return Correct(Shown(given.node), Shown(gold.node));
    case Sameness::kDifferent:
      if (IsTooMuch(gold, how)) return Unscorable("answer: takes too many steps to compare");
      return Wrong(Shown(given.node), Shown(gold.node));
    case Sameness::kUndecided:
      break;
  }
  Verdict verdict =
      Unscorable("answer: cannot be computed, and the response's is written differently");
  verdict.given = Shown(given.node);
  verdict.gold = Shown(gold.node);
  return verdict;
}

}  // namespace

Verdict JudgeMath(const VerifyRequest& request, const RewardConfig& config) {
  const std::vector<std::string>& anchors = config.math.anchors;
  MathComparison how{.mode = config.math.mode};
  const auto gold = ReadAnswer(request.answer, /*truncated=*/false, WithTheRest(anchors), how);
  if (!gold) return Unscorable("answer: none found in the reference");
  auto given = ReadAnswer(request.response, request.truncated, anchors, how);
  if (!given) return Wrong("", Shown(gold->node));
  if (auto later = FindContradiction(request, anchors, *given, how)) {
    if (!later->retracts)
      return Wrong(Shown(given->node) + ", then " + later->number, Shown(gold->node));
    given = Answer{std::move(later->anchor), later->number,
                   *ReadNode(later->number, CommaReading::kThousands), 0};
  }
  Verdict verdict = IsTooVague(*given, *gold) || IsRestated(*given, *gold, request.prompt, how)
                        ? Wrong(Shown(given->node), Shown(gold->node))
                        : Compare(*given, *gold, how);
  verdict.anchor = given->anchor;
  return verdict;
}

}  // namespace buttress
