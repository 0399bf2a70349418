// Sums, differences and products of two integers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/prepare/task.h"

namespace buttress {

struct ArithmeticOptions {
  std::int64_t digits = 2;  // maximum digits of an operand
  std::string operators = "+-";
  // compact: "12+34=", solved by "46"; words: a sentence, solved in <answer> tags.
  PromptFormat format = PromptFormat::kCompact;
};

// Makes the task. kInvalidArgument names the option that is out of range.
Result<std::unique_ptr<Task>> MakeArithmeticTask(const ArithmeticOptions& options);

}  // namespace buttress
