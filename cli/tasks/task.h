// Tasks that write themselves and need no download: a generator draws problems, task_files writes
// them as JSONL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/random.h"
#include "lib/base/status.h"

namespace buttress {

enum class PromptFormat { kCompact, kWords };

struct TaskProblem {
  std::string prompt;
  std::string answer;     // for the verifier of the task's name
  std::string canonical;  // equal for problems that are the same but for the order of their parts
  std::string solution;   // a response that is right
  std::string guess;      // a response of the right form, right only by chance
};

// Immutable; Draw depends on nothing but its stream.
class Task {
 public:
  virtual ~Task() = default;

  // Also the verifier's name and the source of the rows.
  virtual std::string_view name() const = 0;

  // kInvalidArgument if thousands of draws gave no problem within the limits that were asked for.
  virtual Result<TaskProblem> Draw(RandomStream& random) const = 0;
};

}  // namespace buttress
