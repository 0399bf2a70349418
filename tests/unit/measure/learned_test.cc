#include "lib/measure/learned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/text/random.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::vector<StepMean> Means(const std::vector<double>& values) {
  std::vector<StepMean> means;
  for (const double value : values) means.push_back({value});
  return means;
}

// A stationary series of autocorrelation `rho` and variance 1.
std::vector<StepMean> Correlated(std::size_t steps, double rho, RandomStream& random) {
  std::vector<StepMean> means = {{random.Normal()}};
  while (means.size() < steps)
    means.push_back({rho * means.back().mean + std::sqrt(1 - rho * rho) * random.Normal()});
  return means;
}

// The share of series of `steps` steps, shifted by `shift` from the middle on, for whose difference
// `hits` holds.
template <class Hits>
double ShareOfSeries(std::size_t steps, double rho, double shift, Hits hits) {
  constexpr int kSeries = 1000;
  int count = 0;
  for (int n = 0; n < kSeries; ++n) {
    RandomStream random({.seed = steps, .stream = static_cast<std::uint64_t>(n)});
    std::vector<StepMean> means = Correlated(steps, rho, random);
    for (std::size_t i = steps / 2; i < steps; ++i) means[i].mean += shift;
    count += hits(ChangeOver(means)) ? 1 : 0;
  }
  return static_cast<double>(count) / kSeries;
}

TEST(LearnedTest, TheIntervalHoldsTheTrueDifferenceWhateverTheAutocorrelation) {
  for (const std::size_t steps : {20, 40, 100, 400}) {
    for (const double rho : {0.0, 0.3, 0.6}) {
      for (const double shift : {0.0, 3.0}) {
        const double held = ShareOfSeries(steps, rho, shift, [shift](const Change& change) {
          return change.low <= shift && shift <= change.high;
        });
        EXPECT_GE(held, 0.94) << steps << " steps, rho " << rho << ", shift " << shift;
      }
    }
  }
}

TEST(LearnedTest, AShiftOfOneDeviationIsFoundInAHundredStepsAndMore) {
  const auto rose = [](const Change& change) { return change.verdict == ChangeVerdict::kRose; };
  EXPECT_GE(ShareOfSeries(400, 0, 1.0, rose), 0.95);
  EXPECT_GE(ShareOfSeries(400, 0.3, 1.0, rose), 0.8);
  EXPECT_GE(ShareOfSeries(100, 0, 2.0, rose), 0.8);
  EXPECT_LE(ShareOfSeries(100, 0, 0.0, rose), 0.03);
}

// A step is the mean over 16 groups whose 8 completions agree, the worst case of the bound.
TEST(LearnedTest, TheBoundOfTheVarianceIsNotTooNarrow) {
  int held = 0;
  constexpr int kSeries = 1000;
  for (int n = 0; n < kSeries; ++n) {
    RandomStream random({.seed = 7, .stream = static_cast<std::uint64_t>(n)});
    std::vector<StepMean> means;
    for (int step = 0; step < 40; ++step) {
      double right = 0;
      for (int group = 0; group < 16; ++group) right += random.Uniform() < 0.3 ? 1 : 0;
      const double mean = right / 16;
      means.push_back({mean, mean * (1 - mean) / 16});
    }
    const Change change = ChangeOver(means);
    held += change.low <= 0 && change.high >= 0 ? 1 : 0;
  }
  EXPECT_GE(held, 0.93 * kSeries);
}

// What the policy does within the first tenth is not chance.
TEST(LearnedTest, ARunThatIsRuinedWithinItsFirstStepsFell) {
  std::vector<StepMean> means;
  for (const double mean : {0.25, 0.26, 0.02}) means.push_back({mean, mean * (1 - mean) / 16});
  while (means.size() < 40) means.push_back({0, 0});
  EXPECT_EQ(ChangeOver(means).verdict, ChangeVerdict::kFell);
}

// A smooth curve looks like one of few independent steps.
TEST(LearnedTest, ASteepCurveWithLittleNoiseRose) {
  std::vector<StepMean> means;
  for (int step = 0; step < 60; ++step)
    means.push_back({0.18 - 0.08 * std::exp(-step / 12.0) + (step % 2) * 0.004, 0.01 / 16});
  EXPECT_EQ(ChangeOver(means).verdict, ChangeVerdict::kRose);
}

TEST(LearnedTest, EqualStepsAreWithinChanceAndFewStepsHaveNoVerdict) {
  const Change flat = ChangeOver(Means(std::vector<double>(40, 0.0)));
  EXPECT_EQ(flat.verdict, ChangeVerdict::kWithinChance);
  EXPECT_EQ(flat.low, 0);
  EXPECT_EQ(flat.high, 0);
  for (const std::size_t steps : {1, 2, 3, 19}) {
    const Change few = ChangeOver(Means(std::vector<double>(steps, 0.5)));
    EXPECT_EQ(few.verdict, ChangeVerdict::kTooFewSteps);
    EXPECT_EQ(few.first, 0.5);
    EXPECT_TRUE(std::isnan(few.low));
  }
  EXPECT_TRUE(std::isnan(ChangeOver({}).first));
}

TEST(LearnedTest, StepsWithoutAMeasurementDoNotCount) {
  std::vector<double> values(40, kUnknown);
  for (std::size_t i = 0; i < 20; ++i) values[2 * i] = i < 10 ? 0.1 : 0.9;
  const Change change = ChangeOver(Means(values));
  EXPECT_EQ(change.verdict, ChangeVerdict::kRose);
  EXPECT_DOUBLE_EQ(change.difference, 0.8);
}

// 40 prompts: 10 right before and after, `gained` and `lost` ones, the others wrong.
std::optional<Change> Paired(int gained, int lost) {
  std::vector<double> before(40, 0.0), after(40, 0.0);
  for (std::size_t i = 0; i < 10; ++i) before[i] = after[i] = 1;
  for (int i = 0; i < gained; ++i) after[static_cast<std::size_t>(10 + i)] = 1;
  for (int i = 0; i < lost; ++i) before[static_cast<std::size_t>(39 - i)] = 1;
  return PairedChange(before, after);
}

// The values of Agresti and Min's formula, by hand.
TEST(LearnedTest, HeldOutPromptsArePaired) {
  const Change change = *Paired(8, 1);
  EXPECT_DOUBLE_EQ(change.first, 11.0 / 40);
  EXPECT_DOUBLE_EQ(change.last, 18.0 / 40);
  const double centre = 7.0 / 42, error = std::sqrt(10 - 49.0 / 42) / 42;
  EXPECT_NEAR(change.low, centre - 1.96 * error, 1e-5);
  EXPECT_NEAR(change.high, centre + 1.96 * error, 1e-5);
  EXPECT_EQ(change.verdict, ChangeVerdict::kRose);
  EXPECT_EQ(Paired(1, 8)->verdict, ChangeVerdict::kFell);
  EXPECT_EQ(Paired(3, 2)->verdict, ChangeVerdict::kWithinChance);
  const Change same = *Paired(0, 0);
  EXPECT_EQ(same.verdict, ChangeVerdict::kWithinChance);
  EXPECT_GT(same.high, 0.02);
}

TEST(LearnedTest, APromptWithoutAVerdictOnOneSideIsInNoPair) {
  EXPECT_FALSE(PairedChange({}, {}).has_value());
  EXPECT_FALSE(PairedChange(std::vector{1.0}, std::vector{1.0, 0.0}).has_value());
  const auto change =
      PairedChange(std::vector{1.0, kUnknown, 0.0}, std::vector{kUnknown, 1.0, 1.0});
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->difference, 1);
}

TEST(LearnedTest, ThePairedIntervalHoldsTheTrueDifference) {
  for (const std::size_t prompts : {30, 200}) {
    int held = 0;
    constexpr int kTables = 1000;
    for (int n = 0; n < kTables; ++n) {
      RandomStream random({.seed = prompts, .stream = static_cast<std::uint64_t>(n)});
      std::vector<double> before, after;
      for (std::size_t i = 0; i < prompts; ++i) {
        const double u = random.Uniform();  // 0.4 both right, 0.1 lost, 0.2 gained
        before.push_back(u < 0.5 ? 1 : 0);
        after.push_back(u < 0.4 || (u >= 0.5 && u < 0.7) ? 1 : 0);
      }
      const Change change = *PairedChange(before, after);
      held += change.low <= 0.1 && 0.1 <= change.high ? 1 : 0;
    }
    EXPECT_GE(held, 0.93 * kTables) << prompts;
  }
}

// scipy.stats.bootstrap, by tests/golden/make_paired_test.py.
TEST(LearnedTest, ThePairedIntervalOfSharesIsThatOfTheBootstrap) {
  const auto text = ReadFile(std::string(BUTTRESS_GOLDEN) + "/paired_test.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto golden = nlohmann::json::parse(*text);
  int compared = 0;
  for (const auto& row : golden["shares"]) {
    if (!row.contains("low")) continue;
    const auto change = PairedChange(row["first"].get<std::vector<double>>(),
                                     row["second"].get<std::vector<double>>());
    const auto low = row["low"].get<double>(), high = row["high"].get<double>();
    EXPECT_NEAR(change->low, low, 0.05 * (high - low));
    EXPECT_NEAR(change->high, high, 0.05 * (high - low));
    ++compared;
  }
  EXPECT_EQ(compared, 3);
  const std::vector<double> alike(4, 0.25), more(4, 0.5);
  EXPECT_LT(PairedChange(alike, more)->low, 0) << "four equal differences prove little";
}

// A run whose steps have 16 groups of 8 completions.
std::vector<StepMeasurements> Steps(std::size_t count, double first, double last) {
  std::vector<StepMeasurements> steps(count);
  for (std::size_t i = 0; i < count; ++i) {
    StepMeasurements& step = steps[i];
    const double mean = i < count / 2 ? first : last;
    step.drawn_raw_reward_mean = step.accuracy = mean + (i % 2 == 0 ? 0.01 : -0.01);
    step.raw_reward_std = std::sqrt(mean * (1 - mean));
    step.groups = 16;
    step.groups_informative = 8;
    step.completions = 128;
    step.updates = 1;
    step.entropy = 0.5;
    step.format_share = 1;
    step.lr = 1e-4;
  }
  return steps;
}

Learned Of(const std::vector<StepMeasurements>& steps) { return LearnedOf(steps, {}, {}, "RUN"); }

TEST(LearnedTest, ARunThatLearnedSaysSo) {
  const std::vector<double> before(100, 0.0), after(100, 1.0);
  const Learned learned = LearnedOf(Steps(100, 0.3, 0.7), before, after, "RUN");
  EXPECT_TRUE(learned.rose());
  EXPECT_FALSE(learned.fell());
  EXPECT_DOUBLE_EQ(learned.taught, 0.5);
  EXPECT_EQ(learned.unscorable, 0);
  const auto json = LearnedJson(learned);
  EXPECT_EQ(json["reward"]["verdict"], "rose");
  EXPECT_EQ(json["held_out"]["before"], 0);
  EXPECT_EQ(json["held_out"]["after"], 1);
  EXPECT_FALSE(json.contains("cause"));
  EXPECT_THAT(LearnedText(learned),
              AllOf(HasSubstr("did it learn? yes\n"), HasSubstr("held-out %  0.0 to 100.0: +100.0"),
                    HasSubstr("50.0 % taught")));
}

TEST(LearnedTest, ARunWithoutHeldOutPromptsHasNone) {
  EXPECT_FALSE(LearnedJson(Of(Steps(100, 0.3, 0.7))).contains("held_out"));
}

TEST(LearnedTest, WhatIsNotKnownIsNull) {
  const auto json = nlohmann::ordered_json::parse(LearnedJson(Of(Steps(6, 0, 0))).dump());
  EXPECT_EQ(json["reward"]["verdict"], "too few steps");
  EXPECT_TRUE(json["reward"]["low"].is_null());
  const auto none = nlohmann::ordered_json::parse(LearnedJson(Of({})).dump());
  EXPECT_TRUE(none["accuracy"]["first"].is_null());
  EXPECT_THAT(LearnedText(Of({})), HasSubstr("did it learn? no: no group taught"));
  EXPECT_THAT(LearnedText(Of(Steps(6, 0.5, 0.5))), HasSubstr("not known: too few steps"));
}

TEST(LearnedTest, NamesTheVerifierWhereMuchCouldNotBeScored) {
  auto steps = Steps(40, 0, 0);
  for (StepMeasurements& step : steps) {
    step.unscorable = 126;
    step.groups_informative = 0;
  }
  const Learned learned = Of(steps);
  EXPECT_NEAR(learned.unscorable, 0.984, 1e-3);
  EXPECT_EQ(learned.taught, 0);
  EXPECT_THAT(learned.look_at,
              AllOf(HasSubstr("98 % of the completions had no verdict: `buttress samples RUN`"),
                    HasSubstr("docs/not_learning.md")));
}

TEST(LearnedTest, NamesTheLearningRateWhereThePolicyGotWorse) {
  auto steps = Steps(40, 0.3, 0);
  for (std::size_t i = 20; i < steps.size(); ++i) {
    steps[i].entropy = 3;
    steps[i].truncated_share = 1;
  }
  const Learned ruined = Of(steps);
  EXPECT_THAT(LearnedText(ruined), HasSubstr("no, it got worse"));
  EXPECT_THAT(ruined.look_at, AllOf(HasSubstr("entropy went from 0.50 to 3.00"),
                                    HasSubstr("lower run.optim.lr (it was 0.0001) and")));
  for (std::size_t i = 20; i < steps.size(); ++i) steps[i].entropy = 0.01;
  EXPECT_THAT(Of(steps).look_at, HasSubstr("or raise run.algorithm.entropy_coef"));
}

TEST(LearnedTest, ACauseIsSoughtWhereMostGroupsTaughtNothingAndNothingRose) {
  auto steps = Steps(40, 0.3, 0.3);
  EXPECT_FALSE(Of(steps).lacked_signal());
  for (StepMeasurements& step : steps) step.groups_informative = 7;
  EXPECT_TRUE(Of(steps).lacked_signal());
  for (std::size_t i = 20; i < steps.size(); ++i) steps[i].accuracy = 1;
  EXPECT_FALSE(Of(steps).lacked_signal());
  for (std::size_t i = 20; i < steps.size(); ++i) steps[i].accuracy = 0;
  EXPECT_FALSE(Of(steps).lacked_signal());
}

TEST(LearnedTest, NamesWhyNothingRose) {
  auto steps = Steps(40, 0.3, 0.3);
  EXPECT_THAT(Of(steps).look_at, HasSubstr("50 % of the groups taught"));
  for (StepMeasurements& step : steps) step.unchanged_versions = 3;
  EXPECT_THAT(Of(steps).look_at, HasSubstr("changed no weight"));
  for (StepMeasurements& step : steps) step.format_share = 0.1;
  EXPECT_THAT(Of(steps).look_at, HasSubstr("an answer in 10 % of the last"));
  for (StepMeasurements& step : steps) {
    step.groups_informative = 0;
    step.acr_all_wrong = 1;
  }
  EXPECT_THAT(Of(steps).look_at, HasSubstr("100 % of the groups were all wrong"));
  for (StepMeasurements& step : steps) std::swap(step.acr_all_wrong, step.acr_all_correct);
  EXPECT_THAT(Of(steps).look_at, HasSubstr("100 % of the groups were all correct"));
  for (StepMeasurements& step : steps) step.truncated_share = 0.9;
  EXPECT_THAT(Of(steps).look_at, HasSubstr("run.sampling.max_tokens"));
}

TEST(LearnedTest, AnUpdateThatWasSkippedTaughtNothing) {
  auto steps = Steps(40, 0.3, 0.3);
  for (StepMeasurements& step : steps) step.updates = 0;
  EXPECT_EQ(Of(steps).taught, 0);
}

TEST(LearnedTest, AHigherRewardAloneIsReported) {
  auto steps = Steps(100, 0.3, 0.3);
  for (std::size_t i = 50; i < steps.size(); ++i) steps[i].drawn_raw_reward_mean += 0.2;
  const Learned learned = Of(steps);
  EXPECT_THAT(learned.look_at, HasSubstr("the reward rose and the accuracy did not"));
  EXPECT_THAT(LearnedText(learned), HasSubstr("did it learn? in part"));
  const std::vector<double> same(50, 1.0);
  EXPECT_THAT(LearnedOf(steps, same, same, "RUN").look_at,
              HasSubstr("the reward rose and the accuracy did not"));
  EXPECT_THAT(LearnedOf(Steps(100, 0.3, 0.7), same, same, "RUN").look_at,
              AllOf(HasSubstr("held-out ones did not"), Not(HasSubstr("`buttress sft`"))));
}

}  // namespace
}  // namespace buttress
