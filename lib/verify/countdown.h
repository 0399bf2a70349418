// Countdown problems: combine the given numbers to reach the target. The verifier and the generator
// of tasks share these definitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/verify/expression.h"

namespace buttress {

enum class NumberUse { kAtMostOnce, kExactlyOnce };

struct CountdownProblem {
  std::vector<std::int64_t> numbers;
  std::int64_t target = 0;
  std::string operators = "+-*/";  // those that a solution may use

  bool operator==(const CountdownProblem&) const = default;
};

// Parses JSON {"numbers": [7, 7, 1, 5], "target": 4, "operators": "+-"} or "7 7 1 5 > 4". "nums" is
// a synonym of "numbers"; "operators" defaults to all four. Returns kInvalidArgument with what is
// missing.
Result<CountdownProblem> ParseCountdown(std::string_view text);

// Returns the JSON that ParseCountdown reads.
std::string ToJson(const CountdownProblem& problem);

// Returns "1 5 7 7 > 4": equal for problems that differ only in the order of their numbers.
std::string CanonicalForm(const CountdownProblem& problem);

// Returns OK if `expression` solves `problem`, else the reason why it does not.
Status CheckSolution(const CountdownProblem& problem, const Expression& expression, NumberUse use);

}  // namespace buttress
