// The checkpoints that are kept besides the newest (run.checkpoints.keep_best).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "lib/config/run_config.h"

namespace buttress {

// Scores checkpoints: by the held-out accuracy of their weights where the run is evaluated, else by
// the mean raw reward of the run.checkpoint_interval steps up to them. For rank 0. Not thread-safe.
class KeptCheckpoints {
 public:
  explicit KeptCheckpoints(const RunConfig& config) : config_(config) {}

  // Takes the mean reward of the next step; after a restart, those of the steps before it first.
  void AddStep(std::int64_t step, double reward_mean);

  // Returns the mean reward up to a checkpoint of the step that was added last; nullopt if run.eval
  // scores, if that step is no multiple of the interval, or without a reward.
  std::optional<double> RewardOfLastStep() const;

  // Returns the steps of `checkpoints` that are kept for their score: the keep_best best, older
  // ones first where scores are equal, and those whose weights still wait for their evaluation.
  std::set<std::int64_t> Kept(std::span<const std::int64_t> checkpoints) const;

 private:
  bool by_eval() const { return config_.run.eval.every > 0; }

  const RunConfig& config_;
  std::deque<double> rewards_;               // of the last checkpoint_interval steps
  std::map<std::int64_t, double> rewarded_;  // mean reward by step of a checkpoint
  std::int64_t last_step_ = 0;
};

}  // namespace buttress
