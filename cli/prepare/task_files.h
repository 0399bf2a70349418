// Writes a task as JSONL: train.jsonl and held_out.jsonl ({"id", "prompt", "answer", "source"}),
// and sft.jsonl for supervised fine-tuning ({"prompt", "response"}).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/prepare/task.h"

namespace buttress {

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

}  // namespace buttress
