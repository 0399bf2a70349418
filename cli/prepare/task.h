// Generated tasks, which need no download: a Task draws problems, and task_files.h writes them as
// JSONL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/config/choice.h"

namespace buttress {

enum class PromptFormat { kCompact, kWords };

template <>
inline constexpr ChoiceRow<PromptFormat> kChoices<PromptFormat>[] = {
    {PromptFormat::kCompact, "compact", "for a model of single characters"},
    {PromptFormat::kWords, "words"},
};

struct TaskProblem {
  std::string prompt;
  std::string answer;     // for the verifier with the task's name
  std::string canonical;  // equal for problems that differ only in the order of their parts
  std::string solution;   // a correct response
  std::string guess;      // a response of the right form that is correct only by chance
};

// Immutable. Draw depends on its stream only.
class Task {
 public:
  virtual ~Task() = default;

  // The name of the task, of its verifier, and of the data source of its rows.
  virtual std::string_view name() const = 0;

  // Draws one problem. kInvalidArgument if thousands of draws gave none within the limits.
  virtual Result<TaskProblem> Draw(RandomStream& random) const = 0;
};

}  // namespace buttress
