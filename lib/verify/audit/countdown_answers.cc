#include "lib/verify/audit/countdown_answers.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace buttress {
namespace {

constexpr int kMostOperations = 100000;

struct Term {
  Rational value;
  std::string text;
};

Rational AsRational(std::int64_t number) { return Rational(static_cast<signed long>(number)); }

// Depth-first over the operations on two of the terms that are left.
class CountdownSearch {
 public:
  CountdownSearch(const CountdownProblem& problem, NumberUse use)
      : operators_(problem.operators),
        target_(AsRational(problem.target)),
        exactly_once_(use == NumberUse::kExactlyOnce) {
    for (const std::int64_t number : problem.numbers) {
      // An expression has no negative numbers.
      if (number >= 0) terms_.push_back({AsRational(number), std::to_string(number)});
    }
    possible_ = !exactly_once_ || terms_.size() == problem.numbers.size();
  }

  std::optional<std::string> Run() && {
    if (!possible_ || terms_.empty()) return std::nullopt;
    const std::size_t most = terms_.size() - 1;
    for (std::size_t steps = exactly_once_ ? most : 0; steps <= most; ++steps) {
      const bool found =
          steps > 0 ? Combine(steps)
                    : std::ranges::any_of(terms_, [&](const Term& term) { return Solves(term); });
      if (found) return found_;
    }
    return std::nullopt;
  }

 private:
  bool Solves(const Term& term) {
    if (term.value != target_ || term.text.size() > kMaxExpressionBytes) return false;
    found_ = term.text;
    return true;
  }

  // Whether `steps` operations on the terms give the target by the last of them.
  bool Combine(std::size_t steps) {
    for (std::size_t j = 1; j < terms_.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        Term b = Take(j);
        Term a = Take(i);
        if (CombineTwo(a, b, steps)) return true;
        Put(i, std::move(a));
        Put(j, std::move(b));
        if (operations_ >= kMostOperations) return false;
      }
    }
    return false;
  }

  Term Take(std::size_t at) {
    Term term = std::move(terms_[at]);
    terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(at));
    return term;
  }

  void Put(std::size_t at, Term term) {
    terms_.insert(terms_.begin() + static_cast<std::ptrdiff_t>(at), std::move(term));
  }

  bool CombineTwo(const Term& a, const Term& b, std::size_t steps) {
    return Try(a, '+', b, steps) || Try(a, '*', b, steps) || Try(a, '-', b, steps) ||
           Try(b, '-', a, steps) || Try(a, '/', b, steps) || Try(b, '/', a, steps);
  }

  bool Try(const Term& a, char op, const Term& b, std::size_t steps) {
    if (operators_.find(op) == std::string::npos || (op == '/' && b.value == 0)) return false;
    if (++operations_ > kMostOperations) return false;
    Term result{.value = a.value, .text = steps > 1 ? "(" : ""};
    if (op == '+') result.value += b.value;
    if (op == '-') result.value -= b.value;
    if (op == '*') result.value *= b.value;
    if (op == '/') result.value /= b.value;
    result.text += a.text + op + b.text + (steps > 1 ? ")" : "");
    if (steps == 1) return Solves(result);
    terms_.push_back(std::move(result));
    if (Combine(steps - 1)) return true;
    terms_.pop_back();
    return false;
  }

  const std::string operators_;
  const Rational target_;
  const bool exactly_once_;
  bool possible_ = false;
  std::vector<Term> terms_;
  std::string found_;
  int operations_ = 0;
};

}  // namespace

std::optional<std::string> SolveCountdown(const CountdownProblem& problem, NumberUse use) {
  return CountdownSearch(problem, use).Run();
}

std::string SpoiledCountdown(const CountdownProblem& problem, const std::string& solution,
                             std::uint64_t turn) {
  std::vector<std::string> spoiled;
  for (std::size_t at = 0; at < solution.size(); ++at) {
    if (std::string_view("+-*/").find(solution[at]) == std::string_view::npos) continue;
    for (const char op : problem.operators) {
      std::string other = solution;
      other[at] = op;
      const Result<Expression> expression = EvaluateExpression(other);
      if (expression.ok() && expression->value != AsRational(problem.target))
        spoiled.push_back(std::move(other));
    }
  }
  // No problem has 64 numbers in a row from 1 on and one more.
  std::int64_t strange = 1;
  while (std::ranges::find(problem.numbers, strange) != problem.numbers.end()) ++strange;
  const std::string number = std::to_string(strange);
  spoiled.push_back(solution + "+" + number + "-" + number);
  return spoiled[turn % spoiled.size()];
}

}  // namespace buttress
