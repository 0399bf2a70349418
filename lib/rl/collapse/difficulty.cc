#include "lib/rl/collapse/difficulty.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

using Row = std::array<double, Difficulty::kRates>;

constexpr double kUniformGroups = 2;  // weight of the uniform distribution, in groups
constexpr int kIterations = 200;
constexpr double kHistoryWeights[] = {1, 0.75, 0.5, 0.25, 0.125, 0.0625, 0.03125};

// The grid is even in asin(sqrt(p)), in which a binomial rate has the same error everywhere.
double RateAt(double position) {
  const double angle =
      std::numbers::pi / 2 * std::clamp(position / (Difficulty::kRates - 1), 0.0, 1.0);
  return std::sin(angle) * std::sin(angle);
}

struct Grid {
  Row rate, log_rate, log_other, uniform;
};

const Grid& TheGrid() {
  static const Grid grid = [] {
    Grid g;
    for (std::size_t j = 0; j < Difficulty::kRates; ++j) {
      const auto at = static_cast<double>(j);
      g.rate[j] = j + 1 == Difficulty::kRates ? 1.0 : RateAt(at);
      g.log_rate[j] = std::log(g.rate[j]);
      g.log_other[j] = std::log1p(-g.rate[j]);
      g.uniform[j] = RateAt(at + 0.5) - RateAt(at - 0.5);
    }
    return g;
  }();
  return grid;
}

// count * log, where 0 of an impossible result are possible.
double Times(double count, double log) { return count == 0 ? 0.0 : count * log; }

// p^correct (1 - p)^(scored - correct) for every rate, as a share of the largest.
Row Likelihood(const Trials& trials) {
  BUTTRESS_CHECK(0 <= trials.correct && trials.correct <= trials.scored,
                 "trials have 0 <= correct <= scored");
  const Grid& grid = TheGrid();
  Row row;
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = Times(trials.correct, grid.log_rate[j]) +
             Times(trials.scored - trials.correct, grid.log_other[j]);
  }
  const double most = *std::ranges::max_element(row);
  for (double& value : row) value = std::exp(value - most);
  return row;
}

double Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
  return sum;
}

void Multiply(Row& row, const Row& by) {
  for (std::size_t j = 0; j < row.size(); ++j) row[j] *= by[j];
}

void Normalise(Row& row) {
  double sum = 0;
  for (const double value : row) sum += value;
  for (double& value : row) value /= sum;
}

// Probability that `n` completions are all correct or all wrong, for every rate.
Row ConstantRow(double n) {
  Row row;
  for (std::size_t j = 0; j < row.size(); ++j)
    row[j] = std::pow(TheGrid().rate[j], n) + std::pow(1 - TheGrid().rate[j], n);
  return row;
}

// Equal results, and their number.
struct Counted {
  Row likelihood;
  double count;
};

std::vector<Counted> CountResults(std::span<const GroupTrials> groups) {
  std::map<Trials, double> counts;
  for (const GroupTrials& group : groups) counts[group.own] += 1;
  std::vector<Counted> results;
  for (const auto& [own, count] : counts) results.push_back({Likelihood(own), count});
  return results;
}

// Groups of equal size after equal histories.
struct Revisits {
  double constant = 0;
  double mixed = 0;
};

using AllRevisits = std::map<std::pair<Trials, double>, Revisits>;  // by history and size

AllRevisits CountRevisits(std::span<const GroupTrials> groups) {
  AllRevisits revisits;
  for (const auto& [before, own] : groups) {
    if (before.scored == 0 || own.scored < 2) continue;
    Revisits& counts = revisits[{before, own.scored}];
    const bool constant = own.correct == 0 || own.correct == own.scored;
    (constant ? counts.constant : counts.mixed) += 1;
  }
  return revisits;
}

Row MostLikely(std::span<const Counted> results, double groups) {
  const Row& uniform = TheGrid().uniform;
  Row weights = uniform;
  for (int i = 0; i < kIterations; ++i) {
    Row next;
    for (std::size_t j = 0; j < next.size(); ++j) next[j] = kUniformGroups * uniform[j];
    for (const Counted& result : results) {
      const double scale = result.count / Dot(weights, result.likelihood);
      for (std::size_t j = 0; j < next.size(); ++j)
        next[j] += scale * weights[j] * result.likelihood[j];
    }
    for (std::size_t j = 0; j < next.size(); ++j) weights[j] = next[j] / (groups + kUniformGroups);
  }
  return weights;
}

Row PosteriorOf(const Row& prior, const Trials& trials) {
  Row posterior = Likelihood(trials);
  Multiply(posterior, prior);
  Normalise(posterior);
  return posterior;
}

// Whether the histories, weighed by `weight`, predict the collapse rate of the revisits up to its
// standard error.
bool Predicts(const AllRevisits& revisits, const Row& prior, double weight) {
  double expected = 0, constant = 0, groups = 0;
  for (const auto& [visit, counts] : revisits) {
    const auto& [before, size] = visit;
    const Row posterior = PosteriorOf(prior, {weight * before.correct, weight * before.scored});
    expected += (counts.constant + counts.mixed) * Dot(posterior, ConstantRow(size));
    constant += counts.constant;
    groups += counts.constant + counts.mixed;
  }
  return std::abs(constant - expected) <= std::sqrt(constant * (groups - constant) / groups) + 1;
}

}  // namespace

Difficulty::Difficulty() : weights_(TheGrid().uniform) {}

Difficulty Difficulty::Fit(std::span<const GroupTrials> groups) {
  Difficulty fit;
  fit.weights_ = MostLikely(CountResults(groups), static_cast<double>(groups.size()));
  const AllRevisits revisits = CountRevisits(groups);
  const auto weight = std::ranges::find_if(kHistoryWeights, [&](double candidate) {
    return revisits.empty() || Predicts(revisits, fit.weights_, candidate);
  });
  fit.history_weight_ = weight == std::end(kHistoryWeights) ? 0.0 : *weight;
  return fit;
}

Difficulty::Weights Difficulty::Posterior(const Trials& history, const Trials& own) const {
  return PosteriorOf(weights_, {history_weight_ * history.correct + own.correct,
                                history_weight_ * history.scored + own.scored});
}

double Difficulty::AllCorrect(const Trials& history, std::int64_t n) const {
  const Row posterior = Posterior(history, {});
  double sum = 0;
  for (std::size_t j = 0; j < kRates; ++j)
    sum += posterior[j] * std::pow(TheGrid().rate[j], static_cast<double>(n));
  return sum;
}

double Difficulty::AllWrong(const Trials& history, std::int64_t n) const {
  const Row posterior = Posterior(history, {});
  double sum = 0;
  for (std::size_t j = 0; j < kRates; ++j)
    sum += posterior[j] * std::pow(1 - TheGrid().rate[j], static_cast<double>(n));
  return sum;
}

double Difficulty::Constant(const Trials& history, std::int64_t n) const {
  if (n < 2) return 1.0;
  return std::min(1.0, Dot(Posterior(history, {}), ConstantRow(static_cast<double>(n))));
}

double Difficulty::Below(double rate, const Trials& history, const Trials& own) const {
  const Row posterior = Posterior(history, own);
  double sum = 0;
  for (std::size_t j = 0; j < kRates && TheGrid().rate[j] < rate; ++j) sum += posterior[j];
  return sum;
}

void RecentDifficulty::Add(std::uint64_t number, const GroupTrials& group) {
  if (group.own.scored == 0) return;
  groups_[number] = group;
  if (groups_.size() > kGroups) groups_.erase(groups_.begin());
}

Difficulty RecentDifficulty::Fit() const {
  std::vector<GroupTrials> groups;
  for (const auto& [number, group] : groups_) groups.push_back(group);
  return Difficulty::Fit(groups);
}

ExpectedRate IntervalOf(double rate, std::int64_t groups, std::int64_t fitted) {
  if (groups <= 0 || fitted <= 0) return {rate, 0, 1};
  constexpr double kNormal95 = 1.959963984540054;
  const double variance = std::clamp(rate * (1 - rate), 0.0, 0.25) *
                          (1 / static_cast<double>(groups) + 1 / static_cast<double>(fitted));
  const double half = kNormal95 * std::sqrt(variance) + kFitBias;
  return {rate, std::max(0.0, rate - half), std::min(1.0, rate + half)};
}

}  // namespace buttress
