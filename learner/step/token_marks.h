// Selects the tokens that clip_cov and kl_cov treat differently (arXiv 2505.22617). The ranks agree
// on means and thresholds, and each rank marks its own tokens. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

// A completion of this rank in the loss.
struct MarkedRow {
  std::int64_t row = 0;  // row of the plan
  double advantage = 0;
  std::vector<float> logprobs;  // [T] recorded, of the trained tokens
};

// Returns [rows][T] with 1 for marked tokens; see lib/rl/loss/token_covariance.h. Every rank of
// `control` calls it with its own rows. REQUIRES: algorithm.loss is clip_cov or kl_cov.
Result<std::vector<std::vector<std::uint8_t>>> MarkTokens(const std::vector<MarkedRow>& rows,
                                                          const AlgorithmConfig& algorithm,
                                                          RandomKey key, Collective& control,
                                                          std::chrono::milliseconds timeout);

}  // namespace buttress
