// Integer expressions, evaluated exactly.
//
//   sum     = product { ("+" | "-") product }
//   product = factor { ("*" | "/") factor }
//   factor  = "-" factor | "(" sum ")" | digits
//
// White space between tokens is free; the signs × · ÷ − are read as * * / -. No implicit
// multiplication, no leading zeros, no decimals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/verify/rational.h"

namespace buttress {

inline constexpr std::size_t kMaxExpressionBytes = 1024;
inline constexpr int kMaxExpressionDepth = 100;

struct Expression {
  std::string text;                   // without white space, signs in ASCII
  std::vector<std::int64_t> numbers;  // as they stand in it, from left to right
  std::string operators;  // each kind once, in order of appearance; the unary minus is none
  Rational value;
};

// kInvalidArgument says where it is no expression, or what limit it breaks, or that it divides by
// zero.
Result<Expression> EvaluateExpression(std::string_view text);

}  // namespace buttress
