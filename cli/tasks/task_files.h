// Writes a task as the JSONL that users write: train.jsonl and held_out.jsonl ({"id", "prompt",
// "answer", "source"}), and sft.jsonl for a cold start ({"prompt", "response"}).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/tasks/task.h"

namespace buttress {

struct TaskFileOptions {
  std::int64_t train = 0;     // rows, drawn with replacement
  std::int64_t held_out = 0;  // rows, no prompt twice
  std::int64_t sft = 0;  // rows, drawn with replacement from the problems that are not held out
  double held_out_share = 0.1;  // of all problems
  double solution_share = 0.5;  // of the cold start's responses; the rest are guesses
  std::uint64_t seed = 1;
};

// Whether a problem belongs to the held-out ones: by a hash of its canonical form and nothing else,
// so for every seed the same.
bool IsHeldOut(std::string_view canonical, double held_out_share);

// kInvalidArgument if the task has too few problems for what is asked. Equal options give equal
// bytes.
Status WriteTask(const Task& task, const TaskFileOptions& options, const std::string& folder);

}  // namespace buttress
