// Which tokens Clip-Cov and KL-Cov (arXiv 2505.22617) treat otherwise: those whose advantage and
//   log-prob vary together, cov_t = (A_t - mean A) (lp_t - mean lp), means over all trained tokens
//   of the step.
// lp is the recorded log-prob, so that tokens are marked before any is run and the same ones under
// every split over ranks and micro-batches; verl takes the trained policy's, and means and shares
// of one micro-batch. Torch-free, pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/random.h"

namespace buttress {

// Sums over tokens whose log-prob is finite; those of all ranks add up.
struct CovarianceSums {
  double tokens = 0, advantages = 0, logprobs = 0;

  void Add(double advantage, std::span<const float> token_logprobs);
};

// [T] covariances of one completion's tokens; of tokens whose log-prob is not finite: minus
// infinity. REQUIRES: sums.tokens > 0 if T > 0.
std::vector<double> TokenCovariances(double advantage, std::span<const float> token_logprobs,
                                     const CovarianceSums& sums);

// How many tokens a share of `tokens` is: at least one.
std::int64_t MarkedTokens(double share, double tokens);

// Clip-Cov: whether a token within the bounds is left out, each with probability `marked` /
// `eligible`, drawn by its place in the step and no matter which rank asks: the t-th token of
// completion `row`.
bool DrawMark(RandomKey key, std::int64_t row, std::int64_t t, double marked, double eligible);

// KL-Cov: the covariance from which on tokens are marked, the `marked`-th highest of `candidates`,
// which hold the `marked` highest of every rank; ties are all marked. Only covariances above 0 are
// for marking: in a step of equal advantages all are 0. Minus infinity is never a threshold's
// equal: tokens of that covariance stay unmarked.
double MarkThreshold(std::vector<double> candidates, std::int64_t marked);

}  // namespace buttress
