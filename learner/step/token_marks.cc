#include "learner/step/token_marks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace buttress {
namespace {

Status SumOverRanks(std::vector<double>& values, Collective& control,
                    std::chrono::milliseconds timeout) {
  const Buffer buffer{values.data(), static_cast<std::int64_t>(values.size()), DType::kFloat64};
  return control.AllReduceSum(buffer)->Wait(timeout).Annotate("sum of covariances");
}

// Returns the `marked` highest covariances of each rank, padded with minus infinity.
Result<std::vector<double>> Highest(std::vector<double> covariances, std::int64_t marked,
                                    Collective& control, std::chrono::milliseconds timeout) {
  const auto own = static_cast<std::size_t>(marked);
  if (covariances.size() > own) {
    std::nth_element(covariances.begin(), covariances.begin() + static_cast<std::ptrdiff_t>(own),
                     covariances.end(), std::greater<>());
  }
  covariances.resize(own, -std::numeric_limits<double>::infinity());
  std::vector<double> all(own * static_cast<std::size_t>(control.size()));
  const Buffer in{covariances.data(), marked, DType::kFloat64};
  const Buffer out{all.data(), static_cast<std::int64_t>(all.size()), DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(
      control.AllGather(in, out)->Wait(timeout).Annotate("highest covariances"));
  return all;
}

}  // namespace

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

Result<std::vector<std::vector<std::uint8_t>>> MarkTokens(const std::vector<MarkedRow>& rows,
                                                          const AlgorithmConfig& algorithm,
                                                          RandomKey key, Collective& control,
                                                          std::chrono::milliseconds timeout) {
  CovarianceSums own;
  for (const MarkedRow& row : rows) own.Add(row.advantage, row.logprobs);
  std::vector<double> totals = {own.tokens, own.advantages, own.logprobs};
  BUTTRESS_RETURN_IF_ERROR(SumOverRanks(totals, control, timeout));
  const CovarianceSums sums{totals[0], totals[1], totals[2]};
  std::vector<double> covariances;
  for (const MarkedRow& row : rows) {
    const auto of_row = TokenCovariances(row.advantage, row.logprobs, sums);
    covariances.insert(covariances.end(), of_row.begin(), of_row.end());
  }
  const ClipCovConfig& clip = algorithm.clip_cov;
  const auto eligible = [&](double covariance) {
    return clip.low < covariance && covariance < clip.high;
  };
  const bool clips = algorithm.loss == PolicyLoss::kClipCov;
  const std::int64_t marked =
      MarkedTokens(clips ? clip.share : algorithm.kl_cov.share, sums.tokens);
  std::vector<double> eligible_tokens = {
      static_cast<double>(std::ranges::count_if(covariances, eligible))};
  double threshold = 0;
  if (clips) {
    BUTTRESS_RETURN_IF_ERROR(SumOverRanks(eligible_tokens, control, timeout));
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(std::vector<double> highest,
                              Highest(covariances, marked, control, timeout));
    threshold = MarkThreshold(std::move(highest), marked);
  }
  std::vector<std::vector<std::uint8_t>> marks;
  std::size_t next = 0;
  for (const MarkedRow& row : rows) {
    std::vector<std::uint8_t>& of_row = marks.emplace_back(row.logprobs.size(), 0);
    for (std::size_t t = 0; t < of_row.size(); ++t) {
      const double covariance = covariances[next++];
      const auto place = static_cast<std::int64_t>(t);
      const bool mark =
          clips ? eligible(covariance) &&
                      DrawMark(key, row.row, place, static_cast<double>(marked), eligible_tokens[0])
                : covariance >= threshold && covariance > 0;
      of_row[t] = mark ? 1 : 0;
    }
  }
  return marks;
}

}  // namespace buttress
