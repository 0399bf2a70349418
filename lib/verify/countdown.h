// Countdown problems: given numbers, reach the target. Shared by the verifier and by the generator,
// so that both mean the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/verify/expression.h"

namespace buttress {

enum class NumberUse { kAtMostOnce, kExactlyOnce };

struct CountdownProblem {
  std::vector<std::int64_t> numbers;
  std::int64_t target = 0;
  std::string operators = "+-*/";  // that a solution may use

  bool operator==(const CountdownProblem&) const = default;
};

// JSON {"numbers": [7, 7, 1, 5], "target": 4, "operators": "+-"} ("nums" is read too; without
// "operators", all four), or "7 7 1 5 > 4". kInvalidArgument says what is missing.
Result<CountdownProblem> ParseCountdown(std::string_view text);

// As JSON, which ParseCountdown reads.
std::string ToJson(const CountdownProblem& problem);

// "1 5 7 7 > 4": equal for problems that differ in the order of their numbers only.
std::string CanonicalForm(const CountdownProblem& problem);

// Why `expression` does not solve `problem`; OK if it does.
Status CheckSolution(const CountdownProblem& problem, const Expression& expression, NumberUse use);

}  // namespace buttress
