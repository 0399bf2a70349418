// The weights that wait for their evaluation: <out>/evals/v<learner epoch>.<step>, each a Hugging
// Face folder. The learner puts them there and the evaluator takes them away, so that either may be
// killed at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct PendingEval {
  std::uint64_t learner_epoch = 0;
  std::int64_t step = 0;
  std::string folder;
};

// Weights that wait at most; those of a further step are left out.
inline constexpr std::size_t kMostPendingEvals = 2;

std::string PendingEvalsFolder(const std::string& out);

// Where the weights of a step wait, and where they are written before that.
std::string PendingEvalFolderOf(const std::string& out, std::uint64_t learner_epoch,
                                std::int64_t step);
std::string UnfinishedEvalFolder(const std::string& out);

// Returns the oldest first, by epoch and step. Empty if the folder cannot be read.
std::vector<PendingEval> ListPendingEvals(const std::string& out);

// Removes weights of steps after `step`, which a learner trains again, and unfinished ones.
Status RemovePendingEvalsAfter(const std::string& out, std::int64_t step);

}  // namespace buttress
