#include "lib/verify/audit/variants.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

struct Replacement {
  std::string_view from;
  std::string_view to;
};

constexpr Replacement kOperators[] = {
    {"\\cdot ", "+"},   {"\\times ", "+"}, {"\\cup", "\\cap"}, {"<", ">"},     {">", "<"},
    {"\\leq ", "<"},    {"\\le ", "<"},    {"\\geq ", ">"},    {"\\ge ", ">"}, {"\\sqrt{", "{"},
    {"\\sin", "\\cos"}, {"\\ln", "\\sin"}, {"\\infty", "9"},   {"\\pi", "3"}};

constexpr Replacement kUnits[] = {{"\\text{ cm}", "\\text{ m}"},
                                  {"\\text{ inches}", "\\text{ feet}"},
                                  {"\\text{ feet}", "\\text{ inches}"},
                                  {"\\text{ miles", "\\text{ feet"},
                                  {"\\text{ hours}", "\\text{ minutes}"},
                                  {"\\text{ minutes}", "\\text{ hours}"},
                                  {"\\text{ square ", "\\text{ cubic "},
                                  {"\\text{ units}^2", "\\text{ units}^3"},
                                  {"\\text{ degrees}", "\\text{ radians}"},
                                  {"^\\circ", "\\text{ radians}"},
                                  {"^{\\circ}", "\\text{ radians}"},
                                  {"\\%", "\\text{ meters}"},
                                  {"\\$", "\\text{euros } "},
                                  {"\\text{ p.m.}", "\\text{ a.m.}"}};

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Whether the text has a fraction of at least 1 behind an integer, as 1\frac{5}{3} is: a mixed
// number or a product.
bool IsImproper(std::string_view text) {
  constexpr std::string_view kFraction = "\\frac{";
  const std::size_t at = text.find(kFraction);
  if (at == std::string_view::npos || at == 0 || text.find_first_of("0123456789") >= at)
    return false;
  const std::size_t begin = at + kFraction.size();
  const std::size_t middle = std::min(text.find("}{", begin), text.size());
  const std::string_view over = text.substr(begin, middle - begin);
  std::string_view under = text.substr(std::min(middle + 2, text.size()));
  under = under.substr(0, under.find('}'));
  return over.size() > under.size() || (over.size() == under.size() && over >= under);
}

// Collects the near misses of one rule in order.
class Misses {
 public:
  explicit Misses(std::string_view answer) : answer_(answer) {}

  void Add(std::string_view rule, std::string text) {
    if (text == answer_ || IsImproper(text) || !seen_.insert(text).second) return;
    const auto row =
        std::find_if(rows_.begin(), rows_.end(), [&](const auto& r) { return r.first == rule; });
    auto& texts = row == rows_.end() ? rows_.emplace_back(rule, std::vector<std::string>{}).second
                                     : row->second;
    texts.push_back(std::move(text));
  }

  // Adds the answer with [at, at + length) replaced by `text`.
  void Replace(std::string_view rule, std::size_t at, std::size_t length, std::string_view text) {
    Add(rule, std::string(answer_.substr(0, at)) + std::string(text) +
                  std::string(answer_.substr(at + length)));
  }

  std::vector<NearMiss> InTurn(std::size_t most) const {
    std::vector<NearMiss> misses;
    for (std::size_t round = 0, added = 1; added > 0; ++round) {
      added = 0;
      for (const auto& [rule, texts] : rows_) {
        if (round >= texts.size() || misses.size() == most) continue;
        misses.push_back({rule, texts[round]});
        ++added;
      }
    }
    return misses;
  }

 private:
  std::string_view answer_;
  std::set<std::string> seen_;
  std::vector<std::pair<std::string_view, std::vector<std::string>>> rows_;
};

// Returns whether the first value is zero: it has no digit except 0 and no letter that may stand
// for a value.
bool IsZero(std::string_view answer) {
  const std::size_t equals = answer.rfind('=');
  std::string_view value =
      Trim(equals == std::string_view::npos ? answer : answer.substr(equals + 1));
  value = value.substr(0, value.find(','));  // of several values the first has the sign
  return std::all_of(value.begin(), value.end(), [](char c) {
    return !absl::ascii_isalpha(c) && (!absl::ascii_isdigit(c) || c == '0');
  });
}

void AddSigns(std::string_view answer, Misses& misses) {
  if (IsZero(answer) || answer.find("\\pm") != std::string_view::npos) return;
  if (answer.starts_with('-')) {
    misses.Add("sign", std::string(answer.substr(1)));
  } else if (absl::ascii_isdigit(answer[0]) || answer.starts_with("\\frac") ||
             answer.starts_with("\\dfrac") || answer.starts_with("\\sqrt")) {
    misses.Add("sign", "-" + std::string(answer));
  }
  for (std::size_t i = 1; i < answer.size(); ++i) {
    const bool call =
        answer[i - 1] == '(' && i > 1 && absl::ascii_isalpha(answer[i - 2]);  // cos(-x) is cos(x)
    const bool entry = !call && absl::ascii_isdigit(answer[i]) && answer[i] != '0' &&
                       (answer[i - 1] == '(' || answer[i - 1] == ',' || answer[i - 1] == '=');
    const bool thousands = answer[i - 1] == ',' && i > 1 && absl::ascii_isdigit(answer[i - 2]);
    if (entry && !thousands) misses.Replace("sign", i, 0, "-");
  }
}

void AddDigits(std::string_view answer, Misses& misses) {
  if (answer.find("\\approx") != std::string_view::npos) return;  // one member may stay right
  for (const int step : {1, 9, 5, 2, 8, 3, 7, 4, 6}) {
    for (std::size_t i = answer.size(); i-- > 0;) {
      if (absl::ascii_isdigit(answer[i]))
        misses.Replace("digit", i, 1,
                       std::string(1, static_cast<char>('0' + (answer[i] - '0' + step) % 10)));
    }
  }
  for (const char c : {'1', '7'}) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      const bool first = absl::ascii_isdigit(answer[i]) &&
                         (i == 0 || (!absl::ascii_isdigit(answer[i - 1]) && answer[i - 1] != '.' &&
                                     answer[i - 1] != ','));
      if (first) misses.Replace("digit", i, 0, std::string(1, c));
    }
  }
  for (std::size_t i = 0; i + 1 < answer.size(); ++i) {
    const bool inside =
        absl::ascii_isdigit(answer[i]) && answer[i] != '0' && absl::ascii_isdigit(answer[i + 1]);
    if (inside) misses.Replace("digit", i, 1, "");
  }
}

// Swaps a and b in "a,b" of the innermost brackets that open at `open`, or in \frac{a}{b}.
void AddSwap(std::string_view answer, std::size_t begin, std::string_view between, std::size_t end,
             Misses& misses) {
  const std::string_view inside = answer.substr(begin, end - begin);
  const std::size_t middle = inside.find(between);
  if (middle == std::string_view::npos) return;
  const std::string_view first = inside.substr(0, middle);
  const std::string_view second = inside.substr(middle + between.size());
  if (Trim(first) == Trim(second) || second.find(between) != std::string_view::npos) return;
  misses.Replace("order", begin, end - begin,
                 std::string(second) + std::string(between) + std::string(first));
}

void AddOrders(std::string_view answer, Misses& misses) {
  for (std::size_t i = 0; i + 1 < answer.size(); ++i) {
    const bool digits = absl::ascii_isdigit(answer[i]) && absl::ascii_isdigit(answer[i + 1]) &&
                        answer[i] != answer[i + 1];
    if (digits) misses.Replace("order", i, 2, std::string{answer[i + 1], answer[i]});
    if (answer[i] == '(' || answer[i] == '[') {
      std::size_t end = answer.find_first_of("()[]", i + 1);
      if (end == std::string_view::npos || (answer[end] != ')' && answer[end] != ']')) continue;
      if (answer.substr(0, end).ends_with("\\right")) end -= 6;
      AddSwap(answer, i + 1, ",", end, misses);
    }
    constexpr std::string_view kFraction = "frac{";
    if (answer.substr(i).starts_with(kFraction)) {
      const std::size_t begin = i + kFraction.size();
      const std::size_t middle = answer.find_first_of("{}", begin);
      if (middle == std::string_view::npos || !answer.substr(middle).starts_with("}{")) continue;
      const std::size_t end = answer.find_first_of("{}", middle + 2);
      if (end != std::string_view::npos && answer[end] == '}')
        AddSwap(answer, begin, "}{", end, misses);
    }
  }
}

void AddBrackets(std::string_view answer, Misses& misses) {
  if (answer.find(',') != std::string_view::npos && answer.size() > 2) {
    if (answer.front() == '(') misses.Replace("bracket", 0, 1, "[");
    if (answer.front() == '[') misses.Replace("bracket", 0, 1, "(");
    const std::size_t last = answer.size() - 1;
    if (answer.back() == ')') misses.Replace("bracket", last, 1, "]");
    if (answer.back() == ']') misses.Replace("bracket", last, 1, ")");
  }
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (answer[i] != '(') continue;
    const std::size_t end = answer.find_first_of("()", i + 1);
    if (end == std::string_view::npos || answer[end] != ')') continue;
    const std::string_view inside = answer.substr(i + 1, end - i - 1);
    const bool sum = inside.find_first_of("+-", 1) != std::string_view::npos &&
                     inside.find(',') == std::string_view::npos;
    const bool before = i > 0 && (absl::ascii_isdigit(answer[i - 1]) ||
                                  absl::ascii_isalpha(answer[i - 1]) || answer[i - 1] == '-');
    const bool behind =
        end + 1 < answer.size() && (answer[end + 1] == '^' || absl::ascii_isalpha(answer[end + 1]));
    if (sum && (before || behind)) misses.Replace("bracket", i, end - i + 1, inside);
  }
}

void AddOperators(std::string_view answer, Misses& misses) {
  for (std::size_t i = 1; i + 1 < answer.size(); ++i) {
    const char before = answer[i - 1] == ' ' && i > 1 ? answer[i - 2] : answer[i - 1];
    const bool operand = absl::ascii_isdigit(before) || absl::ascii_isalpha(before) ||
                         before == '}' || before == ')';
    if (answer[i] == '+' && operand) misses.Replace("operator", i, 1, "-");
    if (answer[i] == '-' && operand) misses.Replace("operator", i, 1, "+");
  }
  for (const Replacement& replacement : kOperators) {
    const std::size_t at = answer.find(replacement.from);
    if (at != std::string_view::npos)
      misses.Replace("operator", at, replacement.from.size(), replacement.to);
  }
  const bool number = absl::ascii_isdigit(answer.back()) || answer.back() == '}';
  if (number && answer.find("text") == std::string_view::npos) {
    misses.Add("operator", std::string(answer) + "+1");
    misses.Add("operator", std::string(answer) + "-1");
    misses.Add("operator", std::string(answer) + "+2");
    misses.Add("operator", std::string(answer) + "-\\frac{1}{7}");
  }
}

// Moves or adds a decimal point in a number that has none.
void AddPoints(std::string_view answer, Misses& misses) {
  const bool integer = std::ranges::all_of(answer, absl::ascii_isdigit);
  if (!integer) return;
  for (std::size_t i = 1; i < answer.size() && answer[0] != '0'; ++i)
    misses.Replace("point", i, 0, ".");
  for (const std::string_view decimals : {".5", ".1", ".9", ".25"})
    misses.Add("point", std::string(answer) + std::string(decimals));
  if (!IsZero(answer)) misses.Add("point", "0." + std::string(answer));
}

// Adds or removes an entry of a list or tuple; only digits, so that commas separate entries.
void AddEntries(std::string_view answer, Misses& misses) {
  if (answer.find_first_not_of("0123456789-, ()") != std::string_view::npos) return;
  const std::size_t comma = answer.rfind(", ");
  if (comma == std::string_view::npos) return;
  const std::size_t end = answer.ends_with(')') ? answer.size() - 1 : answer.size();
  const std::size_t first = answer.find(',');
  const std::size_t begin = answer.starts_with('(') ? 1 : 0;
  misses.Replace("entry", comma, end - comma, "");
  misses.Replace("entry", begin, answer.find_first_not_of(' ', first + 1) - begin, "");
  for (const std::string_view more : {", 977", ", -977", ", 1/977"})
    misses.Replace("entry", end, 0, more);
}

void AddUnits(std::string_view answer, Misses& misses) {
  for (const Replacement& unit : kUnits) {
    const std::size_t at = answer.find(unit.from);
    if (at != std::string_view::npos) misses.Replace("unit", at, unit.from.size(), unit.to);
  }
}

// Words after a number name the counted things, so their letters are not part of the value.
bool BeginsWithNumber(std::string_view answer) {
  const std::size_t begin = answer.find('{') + 1;
  std::size_t end = begin;
  while (end < answer.size() && absl::ascii_isalpha(answer[end])) ++end;
  return std::any_of(answer.begin(), answer.end(), absl::ascii_isdigit) ||
         NumberWord(answer.substr(begin, end - begin));
}

void AddLetters(std::string_view answer, Misses& misses) {
  const bool text = answer.find("\\text") != std::string_view::npos && !BeginsWithNumber(answer);
  std::size_t command = 0;  // the end of the last command's name
  for (const int step : {1, 2, 5, 7, 11, 13, 17, 19, 21, 23}) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      if (answer[i] == '\\') {
        command = i + 1;
        while (command < answer.size() && absl::ascii_isalpha(answer[command])) ++command;
      }
      if (i < command || !absl::ascii_isalpha(answer[i])) continue;
      const bool lone = (i == 0 || !absl::ascii_isalpha(answer[i - 1])) &&
                        (i + 1 == answer.size() || !absl::ascii_isalpha(answer[i + 1]));
      const bool abbreviation = i + 1 < answer.size() && answer[i + 1] == '.';  // p.m.
      if ((!lone || abbreviation) && !text) continue;
      const char first = answer[i] >= 'a' ? 'a' : 'A';
      misses.Replace("letter", i, 1,
                     std::string(1, static_cast<char>(first + (answer[i] - first + step) % 26)));
    }
    command = 0;
  }
}

}  // namespace

std::vector<NearMiss> NearMisses(std::string_view answer, std::size_t most) {
  answer = Trim(answer);
  if (answer.empty()) return {};
  Misses misses(answer);
  AddSigns(answer, misses);
  AddDigits(answer, misses);
  AddOrders(answer, misses);
  AddBrackets(answer, misses);
  AddOperators(answer, misses);
  AddPoints(answer, misses);
  AddEntries(answer, misses);
  AddUnits(answer, misses);
  AddLetters(answer, misses);
  return misses.InTurn(most);
}

std::vector<FormatVariant> FormatVariants(std::string_view answer) {
  const std::string a(Trim(answer));
  const std::string boxed = "\\boxed{" + a + "}";
  const std::string wide =
      Replaced(Replaced(Replaced(a, "(", "\\left( "), ")", " \\right)"), "\\left\\left", "\\left");
  std::vector<FormatVariant> variants = {
      {"boxed", boxed},
      {"boxed in dollars", "So we find that it must be $" + boxed + "$."},
      {"boxed in a display", "Therefore\n\\[" + boxed + "\\]\n"},
      {"boxed after a wrong one",
       "First I thought of \\boxed{123456789}, which is too large. So it is " + boxed + "."},
      {"boxed behind thinking", "<think>Maybe \\boxed{123456789}.</think>\nIt is " + boxed},
      {"boxed, a special token behind", boxed + "<|im_end|>"},
      {"boxed, blanks inside", "\\boxed{ " + a + " }"},
      {"boxed, bold", "**" + boxed + "**"},
      {"boxed, dollars inside", "\\boxed{$" + a + "$}"},
      {"final answer is", "The final answer is $" + a + "$. I hope it is correct."},
      {"hashes", "First this, then that.\n#### $" + a + "$"},
      {"Answer:", "First this, then that.\nAnswer: $" + a + "$"},
      {"Answer: in bold", "**Answer:** $" + a + "$"},
      {"answer tags", "<answer>" + boxed + "</answer>"},
  };
  if (a.find("\\frac") != std::string::npos)
    variants.push_back({"display fractions", "\\boxed{" + Replaced(a, "\\frac", "\\dfrac") + "}"});
  if (a.find("\\\\") == std::string::npos && a.find('\\') != std::string::npos)
    variants.push_back({"doubled backslashes", "\\boxed{" + Replaced(a, "\\", "\\\\") + "}"});
  if (wide != a && a.find("\\left") == std::string::npos)
    variants.push_back({"\\left and \\right", "\\boxed{" + wide + "}"});
  return variants;
}

}  // namespace buttress
