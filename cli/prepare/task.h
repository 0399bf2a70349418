// Generated tasks, which need no download: a Task draws problems, and WriteTask writes them as
// JSONL: train.jsonl and held_out.jsonl ({"id", "prompt", "answer", "source"}), and sft.jsonl for
// supervised fine-tuning ({"prompt", "response"}).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/config/choice.h"
#include "lib/verify/countdown.h"

namespace buttress {

enum class PromptFormat { kCompact, kWords };

template <>
inline constexpr ChoiceRow<PromptFormat> kChoices<PromptFormat>[] = {
    {PromptFormat::kCompact, "compact", "for a model of single characters"},
    {PromptFormat::kWords, "words"},
};

// Returns `answer` as a response in that format.
inline std::string ResponseOf(PromptFormat format, const std::string& answer) {
  return format == PromptFormat::kCompact ? answer : "<answer>" + answer + "</answer>";
}

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

struct ArithmeticOptions {
  std::int64_t digits = 2;  // maximum digits of an operand
  std::string operators = "+-";
  // compact: "12+34=", solved by "46"; words: a sentence, solved in <answer> tags.
  PromptFormat format = PromptFormat::kCompact;
};

// Makes the task. kInvalidArgument names the option that is out of range.
Result<std::unique_ptr<Task>> MakeArithmeticTask(const ArithmeticOptions& options);

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

struct TaskFileOptions {
  std::int64_t train = 0;       // rows, drawn with replacement
  std::int64_t held_out = 0;    // rows, all prompts distinct
  std::int64_t sft = 0;         // rows, drawn with replacement from the problems not held out
  double held_out_share = 0.1;  // share of all problems
  double solution_share = 0.5;  // share of correct responses in sft.jsonl; the rest are guesses
  std::uint64_t seed = 1;
};

// Returns whether a problem is held out. Only a hash of its canonical form decides, so the split is
// equal for every seed.
bool IsHeldOut(std::string_view canonical, double held_out_share);

// Writes the three files to `folder`. Equal options give equal bytes. kInvalidArgument if the task
// has too few problems.
Status WriteTask(const Task& task, const TaskFileOptions& options, const std::string& folder);

struct GuessTaskOptions {
  std::int64_t max = 16;   // numbers are 1 to this (run.env.guess_max)
  std::int64_t turns = 5;  // guesses of a game in sft.jsonl at most
  std::int64_t sft = 0;    // rows of sft.jsonl
  std::uint64_t seed = 1;
};

// Writes rows for the guessing game of run.env: train.jsonl has one for each number, and sft.jsonl
// has games in which the guesses are random, as conversations. Equal options give equal bytes.
Status WriteGuessTask(const GuessTaskOptions& options, const std::string& folder);

}  // namespace buttress
