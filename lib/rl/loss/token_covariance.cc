#include "lib/rl/loss/token_covariance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace buttress {

void CovarianceSums::Add(double advantage, std::span<const float> token_logprobs) {
  for (const float logprob : token_logprobs) {
    if (!std::isfinite(logprob)) continue;
    tokens += 1;
    advantages += advantage;
    logprobs += logprob;
  }
}

std::vector<double> TokenCovariances(double advantage, std::span<const float> token_logprobs,
                                     const CovarianceSums& sums) {
  std::vector<double> covariances;
  covariances.reserve(token_logprobs.size());
  for (const float logprob : token_logprobs) {
    const double covariance =
        (advantage - sums.advantages / sums.tokens) * (logprob - sums.logprobs / sums.tokens);
    covariances.push_back(std::isfinite(logprob) ? covariance
                                                 : -std::numeric_limits<double>::infinity());
  }
  return covariances;
}

std::int64_t MarkedTokens(double share, double tokens) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share * tokens));
}

bool DrawMark(RandomKey key, std::int64_t row, std::int64_t t, double marked, double eligible) {
  const RandomKey of_row{MixSeed(key.seed, static_cast<std::uint64_t>(row)), key.stream};
  return UniformAt(of_row, static_cast<std::uint64_t>(t)) * eligible < marked;
}

double MarkThreshold(std::vector<double> candidates, std::int64_t marked) {
  const double none = std::numeric_limits<double>::infinity();
  std::erase(candidates, -none);
  if (candidates.empty()) return none;
  const auto nth =
      candidates.begin() +
      std::min<std::ptrdiff_t>(marked, static_cast<std::ptrdiff_t>(candidates.size())) - 1;
  std::nth_element(candidates.begin(), nth, candidates.end(), std::greater<>());
  return *nth;
}

}  // namespace buttress
