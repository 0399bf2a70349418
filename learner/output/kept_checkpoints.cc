#include "learner/output/kept_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "lib/base/report/log.h"
#include "lib/measure/eval_file.h"
#include "lib/measure/pending_evals.h"

namespace buttress {

void KeptCheckpoints::AddStep(std::int64_t step, double reward_mean) {
  if (config_.run.checkpoints.keep_best == 0 || by_eval()) return;
  last_step_ = step;
  if (std::isfinite(reward_mean)) rewards_.push_back(reward_mean);
  while (std::ssize(rewards_) > config_.run.checkpoint_interval) rewards_.pop_front();
  if (step % config_.run.checkpoint_interval != 0 || rewards_.empty()) return;
  rewarded_[step] =
      std::accumulate(rewards_.begin(), rewards_.end(), 0.0) / static_cast<double>(rewards_.size());
}

std::optional<double> KeptCheckpoints::RewardOfLastStep() const {
  const auto found = rewarded_.find(last_step_);
  return found == rewarded_.end() ? std::nullopt : std::optional(found->second);
}

std::set<std::int64_t> KeptCheckpoints::Kept(std::span<const std::int64_t> checkpoints) const {
  std::set<std::int64_t> kept;
  if (config_.run.checkpoints.keep_best == 0) return kept;
  const auto exists = [checkpoints](std::int64_t step) {
    return std::ranges::find(checkpoints, step) != checkpoints.end();
  };
  std::map<std::int64_t, double> scores = rewarded_;
  if (by_eval()) {
    for (const PendingEval& pending : ListPendingEvals(config_.local.out)) {
      if (exists(pending.step)) kept.insert(pending.step);
    }
    const auto rows = ReadEvals(config_.local.out);
    if (!rows.ok()) {
      // Without their scores no checkpoint may be taken for a bad one.
      Log(kWarn, "no checkpoint is deleted", {{"why", rows.status().message()}});
      return {checkpoints.begin(), checkpoints.end()};
    }
    for (const EvalRow& row : *rows) {
      if (std::isfinite(row.accuracy)) scores[row.step] = row.accuracy;
    }
  }
  std::vector<std::pair<double, std::int64_t>> ranked;  // minus the score, step
  for (const auto& [step, score] : scores) {
    if (exists(step)) ranked.emplace_back(-score, step);
  }
  std::ranges::sort(ranked);
  const std::int64_t best = std::min(config_.run.checkpoints.keep_best, std::ssize(ranked));
  for (const auto& [score, step] : std::span(ranked).first(static_cast<std::size_t>(best)))
    kept.insert(step);
  return kept;
}

}  // namespace buttress
