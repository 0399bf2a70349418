#include "lib/explain/group_size.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace buttress {
namespace {

// A ratio of powers: a tenth in amplitude, which is beyond the error of the fitted rates (below 8 %
// of the ratio over the mixes of group_size_test.cc).
constexpr double kLeastGain = 1.2;

struct Rate {
  double rate = 0;
  double weight = 0;
};

// The distribution as weights of rates that are even in asin(sqrt(p)), as its own grid is.
std::vector<Rate> RatesOf(const Difficulty& difficulty) {
  constexpr double kLast = Difficulty::kRates - 1;
  const auto rate_at = [](double position) {
    const double angle = std::numbers::pi / 2 * position / kLast;
    return std::sin(angle) * std::sin(angle);
  };
  std::vector<Rate> rates;
  double below = 0;
  for (double j = 0; j <= kLast; ++j) {
    const double end = j == kLast ? 2.0 : rate_at(j + 0.5);
    const double up_to = difficulty.Below(end, {}, {});
    rates.push_back({j == kLast ? 1.0 : rate_at(j), up_to - below});
    below = up_to;
  }
  return rates;
}

// E[sqrt(k (n - k)) / n] of a binomial k.
double SignalAt(double p, std::int64_t n) {
  if (p <= 0 || p >= 1) return 0;
  const auto size = static_cast<double>(n);
  double sum = 0;
  for (std::int64_t k = 1; k < n; ++k) {
    const auto right = static_cast<double>(k);
    const double log_ways =
        std::lgamma(size + 1) - std::lgamma(right + 1) - std::lgamma(size - right + 1);
    sum += std::exp(log_ways + right * std::log(p) + (size - right) * std::log1p(-p)) *
           std::sqrt(right * (size - right)) / size;
  }
  return sum;
}

double ConstantRate(const std::vector<SourceDifficulty>& sources, std::int64_t n) {
  double sum = 0, shares = 0;
  for (const SourceDifficulty& source : sources) {
    sum += source.share * source.difficulty.Constant({}, n);
    shares += source.share;
  }
  return sum / shares;
}

// E[w(p) p (1 - p)]^2 / E[mean square of advantages]; nullopt as RelativeSignal.
std::optional<double> SignalOf(const std::vector<Rate>& rates, std::int64_t n,
                               const AlgorithmConfig& options) {
  // Beyond it a prompt is as good as decided, and 1 / p grows without bound.
  constexpr double kLeastRate = 1e-5;
  double signal = 0, power = 0;
  for (const auto& [rate, weight] : rates) {
    const double p = std::clamp(rate, kLeastRate, 1 - kLeastRate);
    const std::optional<GradientMoments> moments = MomentsOf(p, static_cast<int>(n), options);
    if (!moments) return std::nullopt;
    signal += weight * moments->weight * p * (1 - p);
    power += weight * moments->power;
  }
  return power > 0 ? std::optional(signal * signal / power) : std::nullopt;
}

}  // namespace

double SignalPerToken(const std::vector<SourceDifficulty>& sources, std::int64_t n) {
  double signal = 0, shares = 0;
  for (const SourceDifficulty& source : sources) {
    for (const auto& [rate, weight] : RatesOf(source.difficulty))
      signal += source.share * weight * SignalAt(rate, n);
    shares += source.share;
  }
  signal /= shares;
  const double mixed = 1 - ConstantRate(sources, n);
  return mixed <= 0 ? 0.0 : signal * signal / mixed;
}

std::optional<double> RelativeSignal(const std::vector<SourceDifficulty>& sources, std::int64_t n,
                                     const AlgorithmConfig& options) {
  std::vector<Rate> rates;
  for (const SourceDifficulty& source : sources) {
    const std::vector<Rate> own = RatesOf(source.difficulty);
    if (rates.empty()) rates = std::vector<Rate>(own.size());
    for (std::size_t j = 0; j < own.size(); ++j)
      rates[j] = {own[j].rate, rates[j].weight + source.share * own[j].weight};
  }
  const std::optional<double> grpo = SignalOf(rates, n, {});
  const std::optional<double> own = SignalOf(rates, n, options);
  return grpo && own && *grpo > 0 ? std::optional(*own / *grpo) : std::nullopt;
}

std::vector<SizeRemedy> CompareSizes(const std::vector<SourceDifficulty>& sources,
                                     std::int64_t size) {
  std::vector<SizeRemedy> sizes;
  if (sources.empty() || size < 2) return sizes;
  const double present = SignalPerToken(sources, size);
  for (const std::int64_t other : {size / 2, size, 2 * size, 4 * size}) {
    if (other < 2) continue;
    sizes.push_back({other, ConstantRate(sources, other),
                     present > 0 ? SignalPerToken(sources, other) / present : 0.0});
  }
  return sizes;
}

std::string AdviseSize(const std::vector<SizeRemedy>& sizes, std::int64_t size) {
  const auto present = std::ranges::find(sizes, size, &SizeRemedy::size);
  if (present == sizes.end()) return "";
  const SizeRemedy best = *std::ranges::max_element(sizes, {}, &SizeRemedy::signal_per_token);
  const SizeRemedy& largest = sizes.back();
  if (best.signal_per_token >= kLeastGain) {
    return fmt::format(
        "By the difficulty of the recent prompts, groups of {} have {:.2f} times the signal to "
        "noise per token of groups of {}, at ACR {:.2f} instead of {:.2f}.",
        best.size, best.signal_per_token, size, best.expected_acr, present->expected_acr);
  }
  return fmt::format(
      "Another group size does not pay: by the difficulty of the recent prompts, groups of {} "
      "have ACR {:.2f} instead of {:.2f}, but only {:.2f} times the signal to noise per token.",
      largest.size, largest.expected_acr, present->expected_acr, largest.signal_per_token);
}

}  // namespace buttress
