#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lib/base/report/metrics.h"
#include "rollout_worker/scoring/controls.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPause(5);

RewardConfig ConfigOf(const std::string& verifier) {
  RewardConfig config;
  config.verifier = verifier;
  return config;
}

Lease LeaseOf(std::uint64_t id) {
  Lease lease;
  lease.ref = {id, 1};
  lease.source = "s";
  lease.answer = "12";
  return lease;
}

// Scores `count` controls and returns the request that reports all of them.
v1::ExchangeRequest Scored(ControlScorer& scorer, int count) {
  for (int i = 1; i <= count; ++i) scorer.Score(LeaseOf(static_cast<std::uint64_t>(i)), "");
  v1::ExchangeRequest request;
  while (request.controls_size() < count) {
    std::this_thread::sleep_for(kPause);
    request.Clear();
    scorer.Report(request);
  }
  return request;
}

TEST(ControlScorerTest, TheAnswerAndASpoiledOneTakeTurns) {
  const RewardConfig config = ConfigOf("math");
  ControlScorer scorer(*VerifierSet::Make(config), config, nullptr);
  const v1::ExchangeRequest request = Scored(scorer, 4);
  for (int i = 0; i < 4; ++i) {
    const v1::ControlVerdict& verdict = request.controls(i);
    EXPECT_EQ(verdict.lease().group_id(), static_cast<std::uint64_t>(i + 1));
    EXPECT_EQ(verdict.source(), "s");
    EXPECT_EQ(verdict.gold(), i % 2 == 0);
    EXPECT_EQ(verdict.outcome(), verdict.gold() ? v1::OUTCOME_CORRECT : v1::OUTCOME_WRONG);
    EXPECT_EQ(verdict.response() == "\\boxed{12}", verdict.gold()) << verdict.response();
  }
}

TEST(ControlScorerTest, VerdictsAreRepeatedUntilACallWasAnswered) {
  const RewardConfig config = ConfigOf("exact");
  ControlScorer scorer(*VerifierSet::Make(config), config, nullptr);
  const v1::ExchangeRequest lost = Scored(scorer, 2);
  v1::ExchangeRequest again;
  scorer.Report(again);
  EXPECT_EQ(again.SerializeAsString(), lost.SerializeAsString());
  scorer.MarkReported(again);
  v1::ExchangeRequest after;
  scorer.Report(after);
  EXPECT_EQ(after.controls_size(), 0);
}

TEST(ControlScorerTest, ErrorsOnPurposeFailControls) {
  RewardConfig config = ConfigOf("math");
  config.noise.false_negative = 1;
  Metrics metrics("worker");
  ControlScorer scorer(*VerifierSet::Make(config), config,
                       RewardNoise::Make(config.noise, 1, metrics));
  const v1::ExchangeRequest request = Scored(scorer, 2);
  EXPECT_EQ(request.controls(0).outcome(), v1::OUTCOME_WRONG);
  EXPECT_EQ(request.controls(1).outcome(), v1::OUTCOME_WRONG);
}

TEST(ControlScorerTest, WithoutAControlTheOutcomeIsUnspecified) {
  const RewardConfig config = ConfigOf("format");
  ControlScorer scorer(*VerifierSet::Make(config), config, nullptr);
  EXPECT_EQ(Scored(scorer, 1).controls(0).outcome(), v1::OUTCOME_UNSPECIFIED);
}

}  // namespace
}  // namespace buttress
