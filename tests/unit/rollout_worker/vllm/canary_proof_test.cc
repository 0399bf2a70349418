#include "rollout_worker/vllm/canary_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr double kBound = 0.01;

Canaries Of(std::vector<std::int32_t> tokens, std::vector<float> logprobs) {
  return {{{1}, std::move(tokens), std::move(logprobs)}};
}

CanaryProof Prove(const VersionCanaries& now, const VersionCanaries& before) {
  return ProveVersion(now, before, kBound, "http://server");
}

VersionCanaries Version(std::uint64_t step, float learner, float server) {
  return {{1, step, ""}, Of({7}, {learner}), Of({7}, {server})};
}

TEST(CanaryProofTest, TheDifferenceIsTheMeanOverTokens) {
  EXPECT_NEAR(CanaryDifference(Of({7, 8}, {-0.5F, -1}), Of({7, 8}, {-0.25F, -1.75F})), 0.5, 1e-6);
}

TEST(CanaryProofTest, TokensAfterTheFirstDifferenceDoNotCount) {
  // 0.3 + 0.25 < 1, so this may be a near tie. Its log-probs differ by log(0.3 / 0.25).
  const double expected = std::log(0.3 / 0.25);
  EXPECT_NEAR(CanaryDifference(Of({7, 8}, {std::log(0.3F), -9}), Of({6, 8}, {std::log(0.25F), -1})),
              expected, 1e-6);
}

TEST(CanaryProofTest, TwoDifferentCertainTokensCountAsADifference) {
  EXPECT_NEAR(CanaryDifference(Of({7}, {0}), Of({6}, {0})), std::log(2.0), 1e-6);
}

TEST(CanaryProofTest, AServerWithinTheBoundIsProven) {
  const CanaryProof proof = Prove(Version(2, -1, -1.005F), Version(1, -2, -2.005F));
  EXPECT_TRUE(proof.status.ok()) << proof.status.ToString();
  EXPECT_FALSE(proof.unchanged);
  EXPECT_NEAR(proof.difference, 0.005, 1e-6);
}

TEST(CanaryProofTest, AServerBeyondTheBoundIsRefused) {
  const CanaryProof proof = Prove(Version(2, -1, -1.02F), Version(1, -2, -2.02F));
  EXPECT_EQ(proof.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(proof.unchanged);
  EXPECT_THAT(proof.status.message(), HasSubstr("differ from the learner's by 0.02 nats"));
}

TEST(CanaryProofTest, AServerThatDidNotFollowTheLearnerIsUnchangedEvenWithinTheBound) {
  const CanaryProof proof = Prove(Version(2, -1.008F, -1), Version(1, -1, -1));
  EXPECT_TRUE(proof.unchanged);
  EXPECT_EQ(proof.status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(proof.status.message(), HasSubstr("still serves policy 1:1"));
}

TEST(CanaryProofTest, AChangeThatThePrecisionMayHideIsIgnored) {
  EXPECT_TRUE(Prove(Version(2, -1.0005F, -1), Version(1, -1, -1)).status.ok());
  EXPECT_TRUE(Prove(Version(2, -1, -1), Version(1, -1, -1)).status.ok());
}

TEST(CanaryProofTest, TheLearnerHasMovedOnceItsChangeShows) {
  EXPECT_FALSE(Prove(Version(2, -1.0005F, -1.0005F), Version(1, -1, -1)).moved);
  EXPECT_TRUE(Prove(Version(2, -1.002F, -1.002F), Version(1, -1, -1)).moved);
  EXPECT_TRUE(Prove(Version(1, -1, -1), VersionCanaries()).moved);
}

TEST(CanaryProofTest, WithoutAPreviousVersionTheBoundAloneDecides) {
  EXPECT_TRUE(Prove(Version(1, -1, -1), VersionCanaries()).status.ok());
  EXPECT_FALSE(Prove(Version(1, -1, -1.5F), VersionCanaries()).status.ok());
}

}  // namespace
}  // namespace buttress
