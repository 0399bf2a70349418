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
constexpr double kLeast = 1e-300;  // probability, of which a logarithm is finite
constexpr double kHistoryWeights[] = {1, 0.75, 0.5, 0.25, 0.125, 0.0625, 0.03125};

// The grid is even in asin(sqrt(p)), in which a binomial rate has the same error everywhere.
double RateAt(double position) {
  const double angle =
      std::numbers::pi / 2 * std::clamp(position / (Difficulty::kRates - 1), 0.0, 1.0);
  return std::sin(angle) * std::sin(angle);
}

// Success rates, and the logarithms of both outcomes.
struct Rates {
  explicit Rates(const Row& rates) : rate(rates) {
    for (std::size_t j = 0; j < rate.size(); ++j) {
      log_rate[j] = std::log(rate[j]);
      log_other[j] = std::log1p(-rate[j]);
    }
  }

  Row rate, log_rate, log_other;
};

const Rates& TheRates() {
  static const Rates rates = [] {
    Row row;
    for (std::size_t j = 0; j < row.size(); ++j)
      row[j] = j + 1 == row.size() ? 1.0 : RateAt(static_cast<double>(j));
    return Rates(row);
  }();
  return rates;
}

const Row& Uniform() {
  static const Row uniform = [] {
    Row row;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const auto at = static_cast<double>(j);
      row[j] = RateAt(at + 0.5) - RateAt(at - 0.5);
    }
    return row;
  }();
  return uniform;
}

// count * log, where 0 of an impossible result are possible.
double Times(double count, double log) { return count == 0 ? 0.0 : count * log; }

// p^correct (1 - p)^(scored - correct) for every rate, as a share of exp(log_most), the largest.
struct Likelihood {
  Likelihood(const Trials& trials, const Rates& rates) {
    BUTTRESS_CHECK(0 <= trials.correct && trials.correct <= trials.scored,
                   "trials have 0 <= correct <= scored");
    for (std::size_t j = 0; j < share.size(); ++j) {
      share[j] = Times(trials.correct, rates.log_rate[j]) +
                 Times(trials.scored - trials.correct, rates.log_other[j]);
    }
    log_most = *std::ranges::max_element(share);
    for (double& value : share) value = std::exp(value - log_most);
  }

  Row share;
  double log_most = 0;
};

// Four sums at once, which the compiler may not make of one by itself.
double Dot(const Row& a, const Row& b) {
  std::array<double, 4> sums{};
  for (std::size_t j = 0; j + 4 <= a.size(); j += 4) {
    for (std::size_t i = 0; i < 4; ++i) sums[i] += a[j + i] * b[j + i];
  }
  static_assert(Difficulty::kRates % 4 == 1);
  return sums[0] + sums[1] + (sums[2] + sums[3]) + a.back() * b.back();
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
Row ConstantRow(double n, const Rates& rates) {
  Row row;
  for (std::size_t j = 0; j < row.size(); ++j)
    row[j] = std::pow(rates.rate[j], n) + std::pow(1 - rates.rate[j], n);
  return row;
}

bool IsMixed(const Trials& own) { return 0 < own.correct && own.correct < own.scored; }

// The groups by age, newest first, and by result: how many there are of each. Ages are in parts of
// RecentDifficulty::kGroups groups.
constexpr std::size_t kAges = 4;
using Results = std::array<std::map<Trials, double>, kAges>;

Results ResultsByAge(std::span<const GroupTrials> groups) {
  Results results;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t age = (groups.size() - 1 - i) * kAges / RecentDifficulty::kGroups;
    results[std::min(age, kAges - 1)][groups[i].own] += 1;
  }
  return results;
}

// How the success rates moved while RecentDifficulty::kGroups groups were drawn: a rate whose logit
// is x now was x - age (shift + spread x) at an age between 0 and 1. Rates of 0 and 1 stay.
struct Drift {
  double shift = 0;
  double spread = 0;

  Drift operator+(const Drift& other) const { return {shift + other.shift, spread + other.spread}; }

  bool plausible() const { return std::abs(shift) <= 6 && -0.5 <= spread && spread < 1; }

  bool operator==(const Drift&) const = default;
};

Rates RatesBefore(const Drift& drift, double age) {
  Row row = TheRates().rate;
  for (std::size_t j = 1; j + 1 < row.size(); ++j) {
    const double logit = TheRates().log_rate[j] - TheRates().log_other[j];
    row[j] = 1 / (1 + std::exp(age * (drift.shift + drift.spread * logit) - logit));
  }
  return Rates(row);
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

// The distribution of the rates now, under a drift.
class MovingFit {
 public:
  MovingFit(const Results& results, const Drift& drift) {
    for (std::size_t age = 0; age < kAges; ++age) {
      const Rates rates = RatesBefore(drift, (static_cast<double>(age) + 0.5) / kAges);
      std::map<double, std::size_t> by_size;
      for (const auto& [own, count] : results[age]) {
        const auto [of_size, is_new] = by_size.try_emplace(own.scored, constant_.size());
        if (is_new) constant_.push_back(ConstantRow(own.scored, rates));
        rows_.push_back({IsMixed(own), count, of_size->second, Likelihood(own, rates)});
        groups_ += count;
      }
    }
  }

  Row Weights(int iterations) const {
    const Row& uniform = Uniform();
    Row weights = uniform;
    for (int i = 0; i < iterations; ++i) {
      Row next;
      for (std::size_t j = 0; j < next.size(); ++j) next[j] = kUniformGroups * uniform[j];
      for (const Counted& row : rows_) {
        const double scale = row.count / Dot(weights, row.likelihood.share);
        for (std::size_t j = 0; j < next.size(); ++j)
          next[j] += scale * weights[j] * row.likelihood.share[j];
      }
      for (std::size_t j = 0; j < next.size(); ++j)
        weights[j] = next[j] / (groups_ + kUniformGroups);
    }
    return weights;
  }

  // The log-likelihood of the results of mixed groups, given that they are mixed.
  double LogLikelihood(const Row& weights) const {
    double sum = 0;
    for (const Counted& row : rows_) {
      if (!row.mixed) continue;
      const double mixed = std::max(kLeast, 1 - Dot(weights, constant_[row.constant]));
      const double result = std::max(kLeast, Dot(weights, row.likelihood.share));
      sum += row.count * (row.likelihood.log_most + std::log(result / mixed));
    }
    return sum;
  }

 private:
  struct Counted {
    bool mixed;
    double count;
    std::size_t constant;  // index
    Likelihood likelihood;
  };

  std::vector<Counted> rows_;
  std::vector<Row> constant_;  // by age and size
  double groups_ = 0;
};

// The drift that makes the mixed groups most likely, by a search along both axes; none unless it is
// significantly better than none. Constant groups have no say, so that a verifier that makes some
// is not taken for a policy that moves.
Drift DriftOf(const Results& results) {
  constexpr int kShort = 20;          // iterations
  constexpr double kLeastGain = 6;    // nats, two of which two useless parameters gain
  constexpr double kLeastStep = 0.1;  // nats
  const auto score = [&](const Drift& drift) {
    const MovingFit fit(results, drift);
    return fit.LogLikelihood(fit.Weights(kShort));
  };
  Drift best;
  const double still = score(best);
  double most = still;
  for (const double step : {1.0, 0.5, 0.25}) {
    if (step < 0.5 && most < still + kLeastGain / 2) break;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Drift& by : {Drift{step, 0}, {-step, 0}, {0, step / 2}, {0, -step / 2}}) {
        const Drift next = best + by;
        const double gained = next.plausible() ? score(next) : most;
        if (gained <= most + kLeastStep) continue;
        most = gained;
        best = next;
        moved = true;
      }
    }
  }
  return most > still + kLeastGain ? best : Drift();
}

Row PosteriorOf(const Row& prior, const Trials& trials) {
  Row posterior = Likelihood(trials, TheRates()).share;
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
    expected += (counts.constant + counts.mixed) * Dot(posterior, ConstantRow(size, TheRates()));
    constant += counts.constant;
    groups += counts.constant + counts.mixed;
  }
  return std::abs(constant - expected) <= std::sqrt(constant * (groups - constant) / groups) + 1;
}

}  // namespace

Difficulty::Difficulty() : weights_(Uniform()) {}

Difficulty Difficulty::Fit(std::span<const GroupTrials> groups) {
  Difficulty fit;
  Results results;
  for (const GroupTrials& group : groups) results[0][group.own] += 1;
  fit.weights_ = MovingFit(results, Drift()).Weights(kIterations);
  const AllRevisits revisits = CountRevisits(groups);
  const auto weight = std::ranges::find_if(kHistoryWeights, [&](double candidate) {
    return revisits.empty() || Predicts(revisits, fit.weights_, candidate);
  });
  fit.history_weight_ = weight == std::end(kHistoryWeights) ? 0.0 : *weight;
  return fit;
}

Difficulty Difficulty::FitMoving(std::span<const GroupTrials> groups) {
  const std::size_t newest = std::min(groups.size(), RecentDifficulty::kGroups / kAges);
  const std::span<const GroupTrials> now = groups.last(newest);
  Difficulty line = FitLine(groups);
  Difficulty own = Fit(now);
  own.history_weight_ = 1;
  const Explained by_line = line.Explains(now), by_own = own.Explains(now);
  constexpr double kLeastGain = 1;  // nats: where nothing moves, chance would choose the higher
  const bool better = 2 * by_own.groups > newest &&
                      by_own.log_likelihood > by_line.log_likelihood + kLeastGain &&
                      by_own.constant > by_line.constant;
  return better ? own : line;
}

Difficulty::Explained Difficulty::Explains(std::span<const GroupTrials> groups) const {
  Explained out;
  for (const auto& [before, own] : groups) {
    if (before.scored == 0 || own.scored < 2) continue;
    const Row posterior = Posterior(before, {});
    const double constant = Dot(posterior, ConstantRow(own.scored, TheRates()));
    out.constant += constant;
    ++out.groups;
    if (!IsMixed(own)) continue;
    const Likelihood result(own, TheRates());
    out.log_likelihood +=
        result.log_most +
        std::log(std::max(kLeast, Dot(posterior, result.share)) / std::max(kLeast, 1 - constant));
  }
  return out;
}

Difficulty Difficulty::FitLine(std::span<const GroupTrials> groups) {
  const Results results = ResultsByAge(groups);
  const Drift drift = DriftOf(results);
  if (drift == Drift()) return Fit(groups);
  Difficulty fit;
  fit.weights_ = MovingFit(results, drift).Weights(kIterations);
  fit.history_weight_ = 0;
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
    sum += posterior[j] * std::pow(TheRates().rate[j], static_cast<double>(n));
  return sum;
}

double Difficulty::AllWrong(const Trials& history, std::int64_t n) const {
  const Row posterior = Posterior(history, {});
  double sum = 0;
  for (std::size_t j = 0; j < kRates; ++j)
    sum += posterior[j] * std::pow(1 - TheRates().rate[j], static_cast<double>(n));
  return sum;
}

double Difficulty::Constant(const Trials& history, std::int64_t n) const {
  if (n < 2) return 1.0;
  return std::min(1.0,
                  Dot(Posterior(history, {}), ConstantRow(static_cast<double>(n), TheRates())));
}

double Difficulty::Below(double rate, const Trials& history, const Trials& own) const {
  const Row posterior = Posterior(history, own);
  double sum = 0;
  for (std::size_t j = 0; j < kRates && TheRates().rate[j] < rate; ++j) sum += posterior[j];
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
  return Difficulty::FitMoving(groups);
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
