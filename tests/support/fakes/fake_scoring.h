// Scores at once: a completion is correct if its first token is even. Truncated ones count like
// others.
#pragma once

#include <vector>

#include "lib/base/thread/sync.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {

class FakeScoring : public ScoringPool {
 public:
  explicit FakeScoring(bool wants_groups = false) : wants_groups_(wants_groups) {}

  void SetSteps(std::int64_t) override {}

  bool WantsGroups(std::string_view) const override { return wants_groups_; }

  Status Submit(ScoreRequest& request) override {
    MutexLock lock(mutex_);
    for (EngineResult& sample : request.samples) {
      Verdict verdict = sample.token_ids.front() % 2 == 0 ? Correct("", "") : Wrong("", "");
      verdict.parts.push_back({"even", 1, verdict.outcome, verdict.raw_reward, "", 0});
      scored_.push_back({std::move(sample), std::move(verdict)});
    }
    return OkStatus();
  }

  std::vector<ScoredCompletion> Poll(std::chrono::milliseconds) override {
    MutexLock lock(mutex_);
    return std::exchange(scored_, {});
  }

  std::size_t inside() const override {
    MutexLock lock(mutex_);
    return scored_.size();
  }

 private:
  const bool wants_groups_;
  mutable Mutex mutex_;
  std::vector<ScoredCompletion> scored_ GUARDED_BY(mutex_);
};

}  // namespace buttress
