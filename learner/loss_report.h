// What a step's loss did, from sums over its tokens: clip shares, importance weights, corrections.
#pragma once

#include <cstdint>
#include <span>

#include "lib/rl/loss/loss.h"
#include "lib/rl/loss/weight_statistics.h"

namespace buttress {

// Sums of a step: LossMetric, then kWeightBins counts of importance weights.
inline constexpr std::size_t kLossSums = static_cast<std::size_t>(LossMetric::kCount) + kWeightBins;

// Importance weights exp(logprobs - sampler_logprobs) over the tokens in the loss, before any
// bound.
struct ImportanceReport {
  double mean = 0;
  double ess = 0;                    // effective share of the tokens, in (0, 1]
  double p01 = 0, p50 = 0, p99 = 0;  // quantiles

  bool operator==(const ImportanceReport&) const = default;
};

// Weights of algorithm.correction, as applied.
struct CorrectionReport {
  double mean = 0;
  double ess = 0;
  double truncated = 0, masked = 0;  // shares of the tokens

  bool operator==(const CorrectionReport&) const = default;
};

// Shares are of the tokens in the loss; everything is 0 if there are none.
struct LossReport {
  std::int64_t tokens = 0;   // run through the model and in the loss
  std::int64_t dropped = 0;  // left out because their recorded log-prob is not finite
  double policy_loss = 0, kl_loss = 0, entropy_bonus = 0;
  double entropy = 0;  // exact, nats
  double kl_k1 = 0;    // KL(sampling policy || learner), two estimators
  double kl_k3 = 0;
  double ref_kl = 0;  // against the start model; 0 without it
  double clip_low = 0, clip_high = 0, clip_dual = 0;
  double marked = 0;  // clip_cov, kl_cov
  ImportanceReport importance;
  CorrectionReport correction;

  double loss() const { return policy_loss + kl_loss - entropy_bonus; }

  double dropped_share() const {
    const auto all = static_cast<double>(tokens + dropped);
    return all > 0 ? static_cast<double>(dropped) / all : 0;
  }
};

// Pure. REQUIRES: sums.size() == kLossSums.
LossReport MakeLossReport(std::span<const double> sums);

}  // namespace buttress
