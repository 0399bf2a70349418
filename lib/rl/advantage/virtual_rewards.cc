#include "lib/rl/advantage/virtual_rewards.h"

#include "lib/rl/statistics.h"

namespace buttress {

Normalizer AmongVirtual(std::span<const double> rewards, const VirtualRewards& virtual_rewards,
                        StdKind kind, double eps) {
  const auto n = static_cast<double>(rewards.size());
  const auto& [w, m, v] = virtual_rewards;
  const double r = Mean(rewards);
  if (AllEqual(rewards) && v == 0 && r == m) return {m, 1.0};
  const double mean = (n * r + w * m) / (n + w);
  const double sum_squares =
      SumSquares(rewards, r) + n * (r - mean) * (r - mean) + w * (v + (m - mean) * (m - mean));
  return {mean, StdPlusEps(sum_squares, n + w, kind, eps)};
}

}  // namespace buttress
