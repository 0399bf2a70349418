// Countdown problems: combine the given numbers to reach the target. The verifier and the generator
// of tasks share these definitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/verify/rational.h"

namespace buttress {

inline constexpr std::size_t kMaxExpressionBytes = 1024;
inline constexpr int kMaxExpressionDepth = 100;

// An integer expression, evaluated exactly:
//
//   sum     = product { ("+" | "-") product }
//   product = factor { ("*" | "/") factor }
//   factor  = "-" factor | "(" sum ")" | digits
//
// White space between tokens is ignored, and the signs × · ÷ − are read as * * / -. There is no
// implicit multiplication, and numbers have neither leading zeros nor decimals.
struct Expression {
  std::string text;                   // without white space, signs in ASCII
  std::vector<std::int64_t> numbers;  // from left to right
  std::string operators;              // each once, in order of appearance; without the unary minus
  Rational value;
};

// Returns kInvalidArgument with the place of a syntax error, the limit that is exceeded, or a
// division by zero.
Result<Expression> EvaluateExpression(std::string_view text);

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

}  // namespace buttress
