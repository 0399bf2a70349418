// Which tokens of the step clip_cov and kl_cov treat otherwise: the ranks agree on means and
// thresholds, each marks its own. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

// A completion of this rank that is in the loss.
struct MarkedRow {
  std::int64_t row = 0;  // of the step
  double advantage = 0;
  std::vector<float> logprobs;  // [T] recorded, of the trained tokens
};

// [rows][T]: 1 for marked tokens, see lib/rl/loss/token_covariance.h. Every rank of `control` calls it,
// with its own rows. REQUIRES: algorithm.loss is clip_cov or kl_cov.
Result<std::vector<std::vector<std::uint8_t>>> MarkTokens(const std::vector<MarkedRow>& rows,
                                                          const AlgorithmConfig& algorithm,
                                                          RandomKey key, Collective& control,
                                                          std::chrono::milliseconds timeout);

}  // namespace buttress
