#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rollout_worker/scoring/second_verifier.h"

namespace buttress {
namespace {

constexpr int kTexts = 20000;

// Which of kTexts responses to `prompt` with this verdict turn.
std::vector<bool> Turned(RewardNoise& noise, const std::string& prompt, const Verdict& verdict) {
  std::vector<bool> turned;
  for (int i = 0; i < kTexts; ++i) {
    Verdict noisy = verdict;
    noise.Apply({}, prompt, "response " + std::to_string(i), noisy);
    EXPECT_EQ(noisy.raw_reward, noisy.outcome == Outcome::kCorrect ? 1 : 0);
    turned.push_back(noisy.outcome != verdict.outcome);
  }
  return turned;
}

double ShareOf(const std::vector<bool>& turned) {
  double sum = 0;
  for (const bool one : turned) sum += one ? 1 : 0;
  return sum / kTexts;
}

TEST(RewardNoise, TurnsTheSetSharesAndCountsThem) {
  Metrics metrics("worker");
  RewardNoise noise({.false_positive = 0.05, .false_negative = 0.3}, 7, metrics);
  // Six standard deviations of a binomial share.
  const auto bound = [](double p) { return 6 * std::sqrt(p * (1 - p) / kTexts); };
  const double positive = ShareOf(Turned(noise, "p", Wrong("2", "1")));
  const double negative = ShareOf(Turned(noise, "p", Correct("1", "1")));
  EXPECT_NEAR(positive, 0.05, bound(0.05));
  EXPECT_NEAR(negative, 0.3, bound(0.3));
  const auto counted = [&](const char* error) {
    return metrics.Counter("buttress_worker_reward_noise_total", "", {{"error", error}}).Value();
  };
  EXPECT_DOUBLE_EQ(counted("false_positive"), positive * kTexts);
  EXPECT_DOUBLE_EQ(counted("false_negative"), negative * kTexts);
}

TEST(RewardNoise, TheTextsAndTheSeedAloneDecide) {
  const RewardNoiseConfig config = {.false_positive = 0.3, .false_negative = 0};
  Metrics first("worker"), second("worker");
  RewardNoise noise(config, 7, first), of_another_worker(config, 7, second);
  const std::vector<bool> turned = Turned(noise, "p", Wrong("2", "1"));
  EXPECT_EQ(Turned(noise, "p", Wrong("2", "1")), turned);
  EXPECT_EQ(Turned(of_another_worker, "p", Wrong("2", "1")), turned);
  Metrics other("worker");
  RewardNoise of_another_run(config, 8, other);
  // Independent draws differ in 2 * 0.3 * 0.7 of the places.
  const auto differing = [&](const std::vector<bool>& others) {
    double count = 0;
    for (std::size_t i = 0; i < turned.size(); ++i) count += turned[i] != others[i] ? 1 : 0;
    return count / kTexts;
  };
  EXPECT_NEAR(differing(Turned(noise, "q", Wrong("2", "1"))), 0.42, 0.02);
  EXPECT_NEAR(differing(Turned(of_another_run, "p", Wrong("2", "1"))), 0.42, 0.02);
}

// Which of kTexts equal completions to a prompt turn, as groups of 8 that begin with `group`.
std::vector<bool> TurnedOfEqualTexts(RewardNoise& noise, std::uint64_t group, std::uint64_t epoch) {
  std::vector<bool> turned;
  for (int i = 0; i < kTexts; ++i) {
    Verdict noisy = Wrong("2", "1");
    noise.Apply({group + static_cast<std::uint64_t>(i / 8), epoch, i % 8}, "p", "r", noisy);
    turned.push_back(noisy.outcome == Outcome::kCorrect);
  }
  return turned;
}

TEST(RewardNoise, ByCompletionEqualTextsTurnIndependently) {
  const RewardNoiseConfig config = {
      .false_positive = 0.3, .false_negative = 0, .by = NoiseBy::kCompletion};
  Metrics first("worker"), second("worker");
  RewardNoise noise(config, 7, first), of_another_worker(config, 7, second);
  const std::vector<bool> turned = TurnedOfEqualTexts(noise, 0, 1);
  EXPECT_NEAR(ShareOf(turned), 0.3, 0.02);
  EXPECT_EQ(TurnedOfEqualTexts(of_another_worker, 0, 2), turned) << "another lease of the groups";
  double agreeing = 0;  // of neighbours in a group: independent ones agree in 0.3^2 + 0.7^2
  for (std::size_t i = 0; i < turned.size(); i += 2) agreeing += turned[i] == turned[i + 1] ? 1 : 0;
  EXPECT_NEAR(agreeing / (kTexts / 2.0), 0.58, 0.03);
  EXPECT_NE(TurnedOfEqualTexts(noise, 10000, 1), turned);
}

TEST(RewardNoise, ByTextEqualTextsTurnAlike) {
  Metrics metrics("worker");
  RewardNoise noise({.false_positive = 0.3, .false_negative = 0}, 7, metrics);
  const double share = ShareOf(TurnedOfEqualTexts(noise, 0, 1));
  EXPECT_TRUE(share == 0 || share == 1) << share;
}

TEST(RewardNoise, TurnsTheDecidingPartOfASum) {
  Metrics metrics("worker");
  RewardNoise noise({.false_positive = 1, .false_negative = 1}, 7, metrics);
  Verdict verdict = Wrong("2", "1");
  verdict.parts = {{"math", 1, Outcome::kWrong, 0, "", 0},
                   {"format", 0.5, Outcome::kWrong, 0, "", 0}};
  noise.Apply({}, "p", "r", verdict);
  EXPECT_EQ(verdict.outcome, Outcome::kCorrect);
  EXPECT_EQ(TotalReward(verdict), 1);
  EXPECT_EQ(verdict.parts[1].outcome, Outcome::kWrong);
  noise.Apply({}, "p", "r", verdict);
  EXPECT_EQ(verdict.outcome, Outcome::kWrong);
  EXPECT_EQ(TotalReward(verdict), 0);
}

TEST(RewardNoise, UnscorableStaysUnscorable) {
  Metrics metrics("worker");
  RewardNoise noise({.false_positive = 1, .false_negative = 1}, 7, metrics);
  Verdict verdict = Unscorable("no reference");
  noise.Apply({}, "p", "r", verdict);
  EXPECT_EQ(verdict.outcome, Outcome::kUnscorable);
  EXPECT_EQ(verdict.unscorable_reason, "no reference");
}

TEST(RewardNoise, WithoutAChanceThereIsNone) {
  Metrics metrics("worker");
  EXPECT_EQ(RewardNoise::Make({}, 7, metrics), nullptr);
  EXPECT_NE(RewardNoise::Make({.false_positive = 0.1, .false_negative = 0}, 7, metrics), nullptr);
}

}  // namespace
}  // namespace buttress
