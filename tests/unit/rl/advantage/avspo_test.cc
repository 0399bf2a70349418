#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "lib/rl/advantage/virtual_samples.h"
#include "tests/unit/rl/advantage/batch.h"

namespace buttress {
namespace {

TEST(AvspoTest, TheConfidenceWeightRisesWithAcrUpToOne) {
  EXPECT_EQ(ConfidenceWeight(0.3, 0.3, 5.0), 0.0);
  EXPECT_NEAR(ConfidenceWeight(0.4, 0.3, 5.0), 0.5, 1e-12);  // 5 (0.4 - 0.3)
  EXPECT_EQ(ConfidenceWeight(0.9, 0.3, 5.0), 1.0);
}

TEST(AvspoTest, OppositeRecordsOneVirtualSamplePerRepairedGroup) {
  const TestBatch batch({{1, 0}, {1, 1}, {0, 0}, {0.5, 0.5}, {1, std::nullopt}});
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kOpposite;
  const auto out = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  const std::vector<double> expected = {0, 1, 1, 0, 0};
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(out->decisions[k].virtual_samples, expected[k]) << "group " << k;
    EXPECT_EQ(out->decisions[k].injected, expected[k] > 0) << "group " << k;
  }
  EXPECT_EQ(out->advantages[6], 0.0);  // constant 0.5 has no opposite
}

TEST(AvspoTest, NoiseDependsOnTheKeyAndOnNothingElse) {
  const TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}});
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kNoise;
  AdvantageInput input = batch.input();
  const auto first = ComputeAdvantages(input, options);
  const auto again = ComputeAdvantages(input, options);
  input.key.stream += 1;
  const auto other = ComputeAdvantages(input, options);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->advantages, again->advantages);
  EXPECT_NE(first->advantages, other->advantages);
}

AlgorithmConfig Ladder() {
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kLadder;
  options.avspo.ladder.threshold_rate = 0.25;
  return options;
}

TEST(AvspoTest, TheLadderThresholdFollowsAcrByTheSignOfTheRewardsChange) {
  const TestBatch batch({{1, 1}, {0, 0}, {1, 1}, {1, 0}});  // ACR 0.75, J = 5 / 8
  AdvantageInput input = batch.input();
  const auto first = ComputeAdvantages(input, Ladder());
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->gate->rate, 0.75);
  EXPECT_EQ(first->gate->threshold, 0.5);
  EXPECT_TRUE(first->gate->open);
  EXPECT_EQ(first->next_gate, (GateState{0.5, 0.625}));  // no step before: it stays
  for (const auto& [before, expected] :
       {std::pair{0.5, 0.5625}, {0.625, 0.5}, {0.75, 0.4375}}) {  // 0.5 +- 0.25 (0.75 - 0.5)
    input.gate = {0.5, before};
    const auto next = ComputeAdvantages(input, Ladder());
    ASSERT_TRUE(next.ok());
    EXPECT_EQ(next->next_gate, (GateState{expected, 0.625})) << before;
  }
}

TEST(AvspoTest, TheLadderThresholdStaysWithinItsBounds) {
  const TestBatch stuck({{1, 1}, {1, 1}});  // ACR 1
  const TestBatch mixed({{1, 0}, {1, 0}});  // ACR 0
  AlgorithmConfig options = Ladder();
  options.avspo.ladder.threshold_rate = 1.0;
  AdvantageInput input = stuck.input();
  input.gate = {0.8, 0.5};  // J rose: towards ACR
  EXPECT_EQ(ComputeAdvantages(input, options)->next_gate.threshold, 0.9);
  input = mixed.input();
  input.gate = {0.2, 0.25};
  EXPECT_EQ(ComputeAdvantages(input, options)->next_gate.threshold, 0.1);
  options.avspo.ladder.threshold_min = 0.15;
  EXPECT_EQ(ComputeAdvantages(input, options)->next_gate.threshold, 0.15);
  input = stuck.input();
  input.gate = {0.7, 0.5};
  options.avspo.ladder.threshold_max = 0.75;
  EXPECT_EQ(ComputeAdvantages(input, options)->next_gate.threshold, 0.75);
}

TEST(AvspoTest, NoiseCountsGroupsBelowTheVarianceThreshold) {
  const TestBatch batch({{1, 0}, {1, 0.8}});  // variances 0.5 and 0.02
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kNoise;
  EXPECT_EQ(ComputeAdvantages(batch.input(), options)->gate->rate, 0);
  options.avspo.variance_threshold = 0.1;
  EXPECT_EQ(ComputeAdvantages(batch.input(), options)->gate->rate, 0.5);
}

TEST(AvspoTest, TheLadderGateUsesTheThresholdThatItIsGiven) {
  const TestBatch batch({{1, 1}, {0, 0}, {1, 1}, {1, 0}});
  AdvantageInput input = batch.input();
  input.gate = {0.75, 0.5};
  const auto out = ComputeAdvantages(input, Ladder());
  ASSERT_TRUE(out.ok());
  EXPECT_FALSE(out->gate->open);  // 0.75 is not above 0.75
  EXPECT_EQ(out->advantages[0], 0.0);
}

// Eight all-correct groups of source "easy", eight mixed ones of "hard", and one all-wrong group of
// "rare". The ACR of all is 9/17.
TestBatch ThreeSources() {
  TestGroups groups(8, {1, 1});
  groups.insert(groups.end(), 8, {1, 0});
  groups.push_back({0, 0});
  TestBatch batch(groups);
  std::vector<std::int32_t> sources(8, 0);
  sources.insert(sources.end(), 8, 1);
  sources.push_back(2);
  batch.set_sources({{"easy", {}, {.groups = 8, .mixed = 8}},
                     {"hard", {}, {.groups = 8, .all_wrong = 8}},
                     {"rare", {}, {.groups = 7, .mixed = 7}}},
                    sources);
  return batch;
}

TEST(AvspoTest, ASourceOpensTheGateOfItsOwnGroupsAndAFewGroupsReadTheRateOfAll) {
  const TestBatch batch = ThreeSources();
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kOpposite;
  for (const auto& [threshold, easy, rare] : {std::tuple{0.6, true, false}, {0.5, true, true}}) {
    options.avspo.acr_threshold = threshold;
    const auto out = ComputeAdvantages(batch.input(), options);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ(out->decisions[0].injected, easy);
    EXPECT_EQ(out->decisions[16].injected, rare) << threshold;
    ASSERT_EQ(out->source_gates.size(), 3U);
    EXPECT_EQ(out->source_gates[0]->rate, 1);
    EXPECT_EQ(out->source_gates[1]->rate, 0);
    EXPECT_FALSE(out->source_gates[1]->open);
    EXPECT_FALSE(out->source_gates[2].has_value());
    EXPECT_EQ(out->gate->rate, 9.0 / 17);
  }
}

TEST(AvspoTest, ThePriorReadsTheStepsBeforeOfItsSource) {
  TestBatch batch = ThreeSources();
  batch.set_history(std::vector<PromptHistory>(17, {5, 10}));
  batch.set_acr_ema(1);
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kPrior;
  const auto out = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_FALSE(out->decisions[0].injected);  // "easy" was mixed so far
  EXPECT_TRUE(out->decisions[16].injected);  // seven groups of "rare" are too few
  EXPECT_EQ(out->source_gates[1]->rate, 1);
}

TEST(AvspoTest, TheLadderKeepsAThresholdForEachSource) {
  const TestBatch batch = ThreeSources();
  AdvantageInput input = batch.input();
  input.gate = {0.5, 0.9};  // J of all has fallen
  input.gate.sources["easy"] = {0.25, 0.5};
  input.gate.sources["gone"] = {0.75, 0.25};
  const auto out = ComputeAdvantages(input, Ladder());
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->source_gates[0]->threshold, 0.25);
  EXPECT_EQ(out->source_gates[1]->threshold, 0.5);  // the first of its own
  const auto& next = out->next_gate.sources;
  EXPECT_EQ(next.size(), 3U);
  EXPECT_EQ(next.at("easy"), (GateMemory{0.25 + 0.25 * 0.75, 1.0}));  // J has risen: towards 1
  EXPECT_EQ(next.at("hard"), (GateMemory{0.5, 0.5}));
  EXPECT_EQ(next.at("gone"), (GateMemory{0.75, 0.25}));
  EXPECT_LT(*out->next_gate.threshold, 0.5);
  EXPECT_TRUE(out->decisions[0].injected);
  EXPECT_TRUE(out->decisions[16].injected);  // 9/17 is above 0.5
  input.sources.resize(3);
  EXPECT_EQ(ErrorOf(input, Ladder()), "sources has 3 entries; expected 17");
}

TEST(AvspoTest, ModesWithoutStateHandItOn) {
  const TestBatch batch({{1, 1}, {0, 0}});
  AdvantageInput input = batch.input();
  input.gate = {0.4, 0.3};
  for (const AvspoMode mode : {AvspoMode::kNoise, AvspoMode::kOpposite, AvspoMode::kPrior}) {
    AlgorithmConfig options;
    options.advantage = Estimator::kAvspo;
    options.avspo.mode = mode;
    EXPECT_EQ(ComputeAdvantages(input, options)->next_gate, input.gate) << ChoiceName(mode);
  }
}

TEST(AvspoTest, PriorIsSilentOnAPromptWhoseOutcomeIsKnown) {
  TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}});
  batch.set_history({{9, 9}, {0, 9}, {0, 9}, {9, 9}});  // always, never, never, always solved
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kPrior;
  const auto out = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->advantages[0], 0.0);
  EXPECT_EQ(out->advantages[4], 0.0);
  EXPECT_GT(out->advantages[8], 0.0);
  EXPECT_LT(out->advantages[12], 0.0);
}

TEST(AvspoTest, PriorForgetsWhatAPromptOnceWas) {
  TestBatch batch({{1, 1, 1, 1}, {1, 1, 1, 1}});
  PromptHistory alike(0, 8), recent(0, 8);
  for (int visit = 0; visit < 4; ++visit) {
    alike.Add({8, 8}, 1);
    recent.Add({8, 8}, 0.5);
  }
  batch.set_history({alike, recent});
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kPrior;
  options.avspo.prior.confidence_count = 1e-9;
  const auto out = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_GT(out->advantages[4], 0.0);
  EXPECT_LT(out->advantages[4], 0.5 * out->advantages[0]);  // solved four times in a row
}

// In one pass over the data no prompt has a history.
TEST(AvspoTest, PriorOfAPromptWithoutAHistoryIsThatOfTheOtherGroups) {
  TestBatch batch({{1, 1, 1, 1}, {0, 0, 0, 0}, {1, 0, 0}, {std::nullopt, 1}});
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  options.avspo.mode = AvspoMode::kPrior;
  batch.set_acr_ema(1);
  const auto unseen = ComputeAdvantages(batch.input(), options);
  batch.set_history({{1, 4}, {3, 4}, {}, {}});  // 2 of 8 and 6 of 8 in the others
  const auto seen = ComputeAdvantages(batch.input(), options);
  ASSERT_TRUE(unseen.ok() && seen.ok()) << unseen.status().message();
  for (std::size_t i = 0; i < unseen->advantages.size(); ++i)
    EXPECT_NEAR(unseen->advantages[i], seen->advantages[i], 1e-12) << i;
  EXPECT_GT(unseen->advantages[0], 0.0);
  EXPECT_LT(unseen->advantages[4], 0.0);

  TestBatch alone({{1, 1, 1, 1}});
  alone.set_acr_ema(1);
  EXPECT_FALSE(ComputeAdvantages(alone.input(), options)->decisions[0].injected);
}

// With the reward math + 0.2 format, all-wrong groups whose completions are all formatted have the
// constant reward 0.2, which is above what a prompt that is never solved is expected to give.
TEST(AvspoTest, VirtualSamplesAreOnTheScaleOfOutcomes) {
  AdvantageInput input;
  const std::vector<double> raw = {0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<double> shaped = {0.2, 0.2, 0.2, 0.2, 0.5, 1.2, 1.2, 1.2};
  TestBatch batch({{0, 0, 0, 0}, {1, 1, 1, 1}});
  batch.set_history({{0, 8}, {8, 8}});
  batch.set_acr_ema(1);
  AlgorithmConfig options;
  options.advantage = Estimator::kAvspo;
  for (const AvspoMode mode : {AvspoMode::kOpposite, AvspoMode::kLadder, AvspoMode::kPrior}) {
    options.avspo.mode = mode;
    input = batch.input();
    const auto plain = ComputeAdvantages(input, options);
    input.rewards = shaped;
    const auto found = ComputeAdvantages(input, options);
    ASSERT_TRUE(plain.ok() && found.ok()) << found.status().message();
    // The constant bonus changes nothing: the outcome alone speaks.
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(found->advantages[i], plain->advantages[i], 1e-12) << ChoiceName(mode);
    EXPECT_LT(found->advantages[4], found->advantages[5]) << ChoiceName(mode);  // cut short
    double sum = 0;
    for (std::size_t i = 4; i < 8; ++i) sum += found->advantages[i];
    EXPECT_GE(sum, -1e-12) << ChoiceName(mode);
  }
}

}  // namespace
}  // namespace buttress
