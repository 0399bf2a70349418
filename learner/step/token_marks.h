// The tokens that Clip-Cov and KL-Cov (arXiv 2505.22617) treat differently: those whose advantage
// and log-prob vary together,
//   cov_t = (A_t - mean A) (lp_t - mean lp),
// with means over all trained tokens of the step. lp is the recorded log-prob, so that tokens are
// marked before any is run, and the same tokens under every split over ranks and micro-batches.
// verl takes the trained policy's log-prob, and means and shares of one micro-batch. The ranks
// agree on means and thresholds, and each rank marks its own tokens. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

// Sums over tokens whose log-prob is finite; the sums of all ranks add up.
struct CovarianceSums {
  double tokens = 0, advantages = 0, logprobs = 0;

  void Add(double advantage, std::span<const float> token_logprobs);
};

// [T] covariances of the tokens of one completion; minus infinity for a token whose log-prob is not
// finite. REQUIRES: sums.tokens > 0 if T > 0.
std::vector<double> TokenCovariances(double advantage, std::span<const float> token_logprobs,
                                     const CovarianceSums& sums);

// The number of tokens that `share` of `tokens` is; at least one.
std::int64_t MarkedTokens(double share, double tokens);

// Clip-Cov: whether token t of completion `row` is left out, given that its covariance is within
// the bounds: each with probability `marked` / `eligible`. The draw depends on the token's place in
// the step and not on the rank that asks.
bool DrawMark(RandomKey key, std::int64_t row, std::int64_t t, double marked, double eligible);

// KL-Cov: the covariance from which on tokens are marked: the `marked`-th highest of `candidates`,
// which hold the `marked` highest of every rank. Ties are all marked. The caller marks covariances
// above 0 only, since all are 0 in a step of equal advantages. Tokens of covariance minus infinity
// are never marked.
double MarkThreshold(std::vector<double> candidates, std::int64_t marked);

// A completion of this rank in the loss.
struct MarkedRow {
  std::int64_t row = 0;  // row of the plan
  double advantage = 0;
  std::vector<float> logprobs;  // [T] recorded, of the trained tokens
};

// Returns [rows][T] with 1 for marked tokens. Every rank of
// `control` calls it with its own rows. REQUIRES: algorithm.loss is clip_cov or kl_cov.
Result<std::vector<std::vector<std::uint8_t>>> MarkTokens(const std::vector<MarkedRow>& rows,
                                                          const AlgorithmConfig& algorithm,
                                                          RandomKey key, Collective& control,
                                                          std::chrono::milliseconds timeout);

}  // namespace buttress
