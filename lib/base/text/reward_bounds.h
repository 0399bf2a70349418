// The values that a reward may have, wherever rewards enter: from settings, verifiers, workers and
// dumps.
#pragma once

#include <cmath>
#include <cstddef>

namespace buttress {

// The largest magnitude of a reward and of a weight. Sums and squares of such rewards are finite in
// every estimator. A reward beyond it is an error of the reward function, and its completion is
// unscorable.
inline constexpr double kMaxReward = 1e6;

// Returns false for NaN as well.
inline bool IsReward(double value) { return std::abs(value) <= kMaxReward; }

inline constexpr std::size_t kMaxRewardTerms = 32;      // of a weighted sum
inline constexpr std::size_t kMaxTermBytes = 1024;      // of the name of a term with its argument
inline constexpr std::size_t kMaxReasonBytes = 1024;    // of the reason of an unscorable completion
inline constexpr std::size_t kMaxExtractedBytes = 256;  // of the answer in a response

}  // namespace buttress
