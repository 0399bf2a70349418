#include "rollout_worker/scoring/slow_rewards.h"

namespace buttress {

void SlowRewards::Add(const std::string& verifier, double seconds) {
  const MutexLock lock(mutex_);
  Spent& spent = spent_[verifier];
  spent.seconds += seconds;
  ++spent.completions;
}

std::optional<SlowReward> SlowRewards::Poll(double now) {
  const MutexLock lock(mutex_);
  if (now - begin_ < kWindowSeconds) return std::nullopt;
  const double offered = threads_ * (now - begin_);
  SlowReward slowest;
  for (const auto& [verifier, spent] : spent_) {
    const double share = spent.seconds / offered;
    slowest.busy_share += share;
    if (share <= slowest.share) continue;
    slowest.verifier = verifier;
    slowest.share = share;
    slowest.seconds = spent.seconds / static_cast<double>(spent.completions);
  }
  begin_ = now;
  spent_.clear();
  return slowest.busy_share > kBusyShare ? std::optional(slowest) : std::nullopt;
}

}  // namespace buttress
