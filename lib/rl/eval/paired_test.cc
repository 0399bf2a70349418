#include "lib/rl/eval/paired_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr double kRounding = 1e-9;  // of differences that are equal but for their rounding

// min(1, 2 P(X <= fewer)) for X of the binomial distribution of `n` fair throws.
double TwoSidedBinomial(std::int64_t fewer, std::int64_t n) {
  const auto log_factorial = [](std::int64_t of) {
    return std::lgamma(static_cast<double>(of) + 1);
  };
  double tail = 0;
  for (std::int64_t i = 0; i <= fewer; ++i)
    tail += std::exp(log_factorial(n) - log_factorial(i) - log_factorial(n - i) -
                     static_cast<double>(n) * std::log(2.0));
  return std::min(1.0, 2 * tail);
}

double ShareOfSigns(std::span<const double> sizes, double observed) {
  constexpr std::int64_t kDraws = 100000;
  constexpr std::size_t kBits = 128;  // of a block of random numbers
  std::int64_t as_far = 1;            // the observed signs are one of the draws
  std::uint64_t counter = 0;
  for (std::int64_t draw = 1; draw < kDraws; ++draw) {
    double sum = 0;
    for (std::size_t begin = 0; begin < sizes.size(); begin += kBits) {
      const auto block = Philox({}, counter++);
      const std::size_t end = std::min(sizes.size(), begin + kBits);
      for (std::size_t i = begin; i < end; ++i)
        sum += (block[(i - begin) / 32] >> ((i - begin) % 32) & 1) != 0 ? sizes[i] : -sizes[i];
    }
    as_far += std::abs(sum) >= observed - kRounding ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(kDraws);
}

}  // namespace

double PairedPValue(std::span<const double> differences) {
  std::vector<double> sizes;
  double sum = 0;
  std::int64_t positive = 0;
  for (const double difference : differences) {
    if (std::abs(difference) <= kRounding) continue;
    sizes.push_back(std::abs(difference));
    sum += difference;
    positive += difference > 0 ? 1 : 0;
  }
  if (sizes.empty()) return 1;
  const auto [least, most] = std::ranges::minmax(sizes);
  if (most - least > kRounding) return ShareOfSigns(sizes, std::abs(sum));
  const auto n = static_cast<std::int64_t>(sizes.size());
  return TwoSidedBinomial(std::min(positive, n - positive), n);
}

}  // namespace buttress
