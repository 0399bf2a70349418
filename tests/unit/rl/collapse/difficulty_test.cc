#include "lib/rl/collapse/difficulty.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text/random.h"

namespace buttress {
namespace {

// Prompts with success rates that the test knows.
struct Mix {
  std::string name;
  std::vector<double> rates;  // one per prompt
};

constexpr std::size_t kPrompts = 2000;

Mix BetaMix(double a, double b) {
  Mix mix{fmt::format("Beta({:g}, {:g})", a, b), {}};
  // Quantiles of the distribution, from its density on a fine grid.
  constexpr int kCells = 200000;
  std::vector<double> cumulative = {0};
  for (int i = 0; i < kCells; ++i) {
    const double p = (i + 0.5) / kCells;
    cumulative.push_back(cumulative.back() + std::pow(p, a - 1) * std::pow(1 - p, b - 1));
  }
  std::size_t cell = 0;
  for (std::size_t k = 0; k < kPrompts; ++k) {
    const double target = (static_cast<double>(k) + 0.5) / kPrompts * cumulative.back();
    while (cumulative[cell + 1] < target) ++cell;
    mix.rates.push_back((static_cast<double>(cell) + 0.5) / kCells);
  }
  return mix;
}

// Shares of the prompts at fixed rates.
Mix PointMix(const std::vector<std::pair<double, double>>& points) {
  Mix mix;
  for (const auto& [share, rate] : points) {
    mix.name += fmt::format("{}{:g} % at {:g}", mix.name.empty() ? "" : ", ", 100 * share, rate);
    mix.rates.resize(mix.rates.size() + static_cast<std::size_t>(std::lround(share * kPrompts)),
                     rate);
  }
  return mix;
}

std::vector<Mix> Mixes() {
  return {
      PointMix({{1, 0.18}}),
      BetaMix(0.3, 1.36),
      PointMix({{0.8, 0.01}, {0.2, 0.85}}),
      BetaMix(1, 1),
      BetaMix(2, 2),
      BetaMix(5, 5),
      BetaMix(0.5, 0.5),
      BetaMix(0.2, 0.2),
      BetaMix(0.1, 0.3),
      BetaMix(0.3, 0.1),
      BetaMix(2, 6),
      BetaMix(6, 2),
      BetaMix(0.6, 3),
      BetaMix(3, 0.6),
      BetaMix(1, 9),
      BetaMix(9, 1),
      PointMix({{1, 0.5}}),
      PointMix({{1, 0.95}}),
      PointMix({{1, 0.02}}),
      PointMix({{0.5, 0}, {0.5, 1}}),
      PointMix({{0.4, 0}, {0.6, 0.5}}),
      PointMix({{0.3, 0.1}, {0.4, 0.5}, {0.3, 0.9}}),
      PointMix({{0.25, 0}, {0.25, 0.3}, {0.25, 0.7}, {0.25, 1}}),
      PointMix({{0.9, 0.99}, {0.1, 0.05}}),
      PointMix({{0.7, 0.03}, {0.3, 0.4}}),
  };
}

std::int64_t Draw(RandomStream& random, double rate, std::int64_t n) {
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < n; ++i) correct += random.Uniform() < rate ? 1 : 0;
  return correct;
}

struct Observation {
  double observed = 0;
  double expected = 0;
  std::int64_t groups = 0;
};

// Visits every prompt `visits` times, and compares what each visit but the first observes with what
// the visits before it predict.
std::vector<Observation> Visit(const Mix& mix, std::int64_t size, int visits) {
  RandomStream random({HashText(mix.name), static_cast<std::uint64_t>(size)});
  std::vector<Trials> history(mix.rates.size());
  RecentDifficulty recent;
  std::vector<Observation> observations;
  std::uint64_t number = 0;
  for (int visit = 1; visit <= visits; ++visit) {
    Observation seen;
    const Difficulty fit = recent.Fit();
    for (std::size_t at = 0; at < mix.rates.size(); ++at) {
      const std::size_t k = at * 7919 % mix.rates.size();  // not in the order of their rates
      const std::int64_t correct = Draw(random, mix.rates[k], size);
      const Trials own = {static_cast<double>(correct), static_cast<double>(size)};
      if (visit > 1) {
        ++seen.groups;
        seen.observed += correct == 0 || correct == size ? 1 : 0;
        seen.expected += fit.Constant(history[k], size);
      }
      recent.Add(++number, {history[k], own});
      history[k] = {history[k].correct + own.correct, history[k].scored + own.scored};
    }
    if (seen.groups == 0) continue;
    seen.observed /= static_cast<double>(seen.groups);
    seen.expected /= static_cast<double>(seen.groups);
    observations.push_back(seen);
  }
  return observations;
}

// The mean over three visits, so that the sampling error of 6,000 groups (0.6 points) is small
// next to the bound.
TEST(DifficultyTest, TheExpectedRateIsCalibratedWhateverTheMix) {
  std::string table;
  std::int64_t rows = 0, outside = 0;
  for (const Mix& mix : Mixes()) {
    for (const std::int64_t size : {4, 8, 16}) {
      const std::vector<Observation> observations = Visit(mix, size, 4);
      double bias = 0;
      for (std::size_t i = 0; i < observations.size(); ++i) {
        const auto& [observed, expected, groups] = observations[i];
        const ExpectedRate interval =
            IntervalOf(expected, groups, static_cast<std::int64_t>(RecentDifficulty::kGroups));
        bias += (expected - observed) / static_cast<double>(observations.size());
        ++rows;
        outside += interval.contains(observed) ? 0 : 1;
        table += fmt::format(
            "{:<48} G {:>2} visit {}  observed {:.3f} expected {:.3f} [{:.3f}, {:.3f}]\n", mix.name,
            size, i + 2, observed, expected, interval.low, interval.high);
      }
      EXPECT_LT(std::abs(bias), kFitBias) << mix.name << ", groups of " << size;
    }
  }
  EXPECT_LE(outside, rows / 50) << table;
}

// Groups of 8 from prompts with rates over (0, 1), which move by `drift` towards 0 or 1 from one
// visit to the next, as those of a policy that becomes certain. From `fault` on a group whose
// prompt is even gets nothing but wrong verdicts.
Observation LastVisit(double drift, int visits, int fault) {
  Mix mix = BetaMix(1, 1);
  RandomStream random({5, 5});
  std::vector<Trials> history(mix.rates.size());
  RecentDifficulty recent;
  Difficulty fit;
  Observation seen;
  std::uint64_t number = 0;
  for (int visit = 1; visit <= visits; ++visit) {
    for (std::size_t at = 0; at < mix.rates.size(); ++at) {
      const std::size_t k = at * 7919 % mix.rates.size();
      double& rate = mix.rates[k];
      const std::int64_t correct = visit >= fault && k % 2 == 0 ? 0 : Draw(random, rate, 8);
      rate = std::clamp(rate + (rate < 0.5 ? -drift : drift), 0.0, 1.0);
      const Trials own = {static_cast<double>(correct), 8};
      if (at % 128 == 0) fit = recent.Fit();
      if (visit == visits) {
        ++seen.groups;
        seen.observed += (correct == 0 || correct == 8 ? 1 : 0) / double{kPrompts};
        seen.expected += fit.Constant(history[k], 8) / double{kPrompts};
      }
      recent.Add(++number, {history[k], own});
      history[k] = {history[k].correct + own.correct, history[k].scored + own.scored};
    }
  }
  return seen;
}

constexpr int kNever = 100;

TEST(DifficultyTest, APolicyThatBecomesCertainIsNotAFault) {
  const Observation seen = LastVisit(0.03, 10, kNever);
  EXPECT_GT(seen.observed, 0.5);  // 0.22 at the first visit
  EXPECT_TRUE(IntervalOf(seen.expected, seen.groups, 1024).contains(seen.observed))
      << seen.observed << " against " << seen.expected;
}

TEST(DifficultyTest, AVerifierThatBreaksIsOutsideOfTheInterval) {
  const Observation healthy = LastVisit(0, 4, kNever);
  EXPECT_TRUE(IntervalOf(healthy.expected, healthy.groups, 1024).contains(healthy.observed));
  const Observation broken = LastVisit(0, 4, 4);
  EXPECT_GT(broken.observed, IntervalOf(broken.expected, broken.groups, 1024).high);
}

TEST(DifficultyTest, WithoutGroupsEveryRateIsEquallyLikely) {
  const Difficulty uniform;
  EXPECT_NEAR(uniform.Constant({}, 8), 2.0 / 9, 2e-3);  // 1 / (n + 1) at either end
  EXPECT_NEAR(uniform.Constant({}, 2), 2.0 / 3, 2e-3);
  EXPECT_EQ(uniform.Constant({}, 1), 1);
  EXPECT_NEAR(uniform.AllCorrect({4, 4}, 2), 5.0 / 7, 2e-3);  // Beta(5, 1)
  EXPECT_NEAR(uniform.AllWrong({4, 4}, 2), 1.0 / 21, 2e-3);
  EXPECT_NEAR(uniform.Below(0.8, {}, {8, 8}), std::pow(0.8, 9), 0.05);
}

TEST(RecentDifficultyTest, KeepsTheGreatestNumbersInWhateverOrderTheyCome) {
  RecentDifficulty forward, backward;
  for (std::uint64_t number = 1; number <= 2000; ++number) {
    const GroupTrials group = {{}, {static_cast<double>(number % 9), 8}};
    const GroupTrials mirrored = {{}, {static_cast<double>((2001 - number) % 9), 8}};
    forward.Add(number, group);
    backward.Add(2001 - number, mirrored);
  }
  EXPECT_EQ(forward.groups(), RecentDifficulty::kGroups);
  EXPECT_EQ(forward, backward);
}

}  // namespace
}  // namespace buttress
