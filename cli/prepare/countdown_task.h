// Countdown problems: numbers, and a target that an expression over them reaches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/prepare/task.h"
#include "lib/verify/countdown.h"

namespace buttress {

// One part of a mix of easy and hard problems.
struct CountdownKind {
  double share = 1;  // relative to the other kinds
  std::int64_t numbers = 4;
  std::string operators = "+-*/";
};

struct CountdownOptions {
  std::vector<CountdownKind> kinds = {{}};
  std::int64_t min_number = 1;
  std::int64_t max_number = 9;
  std::int64_t min_target = 0;
  std::int64_t max_target = 999;
  NumberUse use = NumberUse::kAtMostOnce;
  // compact: "7715>004:" (numbers above 9 are separated by commas), solved by "7-5+7-1"; words: a
  // sentence, solved in <answer> tags.
  PromptFormat format = PromptFormat::kCompact;
};

// Parses SHARE:NUMBERS:OPERATORS; "0.3:4:+-" is share 0.3, four numbers, plus and minus.
Result<CountdownKind> ParseCountdownKind(const std::string& text);

// Makes the task. A target is the value of a random expression without parentheses over all
// numbers, or over two or more of them with NumberUse::kAtMostOnce; it is drawn again until it is
// an integer in range. kInvalidArgument names the option that is out of range.
Result<std::unique_ptr<Task>> MakeCountdownTask(const CountdownOptions& options);

}  // namespace buttress
