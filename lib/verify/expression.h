// Integer expressions, evaluated exactly.
//
//   sum     = product { ("+" | "-") product }
//   product = factor { ("*" | "/") factor }
//   factor  = "-" factor | "(" sum ")" | digits
//
// White space between tokens is ignored, and the signs × · ÷ − are read as * * / -. There is no
// implicit multiplication, and numbers have neither leading zeros nor decimals.
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

struct Expression {
  std::string text;                   // without white space, signs in ASCII
  std::vector<std::int64_t> numbers;  // from left to right
  std::string operators;              // each once, in order of appearance; without the unary minus
  Rational value;
};

// Returns kInvalidArgument with the place of a syntax error, the limit that is exceeded, or a
// division by zero.
Result<Expression> EvaluateExpression(std::string_view text);

}  // namespace buttress
