#include "rollout_worker/held_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/experience/group.h"
#include "tests/support/fakes/fake_scoring.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;

const PolicyVersion kOld{1, 3, std::string(32, 'a')};
const PolicyVersion kNew{1, 4, std::string(32, 'b')};

ScoredCompletion Scored(std::int32_t index, std::vector<Segment> segments, Verdict verdict) {
  ScoredCompletion scored;
  scored.sample.id = {7, 1, index};
  scored.sample.token_ids = {5, 6, index};
  scored.sample.logprobs = {-1, -2, -3};
  scored.sample.segments = std::move(segments);
  scored.sample.finish_reason = FinishReason::kStop;
  scored.verdict = std::move(verdict);
  return scored;
}

TEST(HeldGroupsTest, ACompleteGroupHasItsCompletionsByIndexWithVersionsAndVerdicts) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.prompt_id = "p";
  work.lease.source = "s";
  work.lease.prompt_token_ids = {1, 2};
  work.lease.completions = 3;
  work.lease.sampling.seed = 9;
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  Verdict sum = Correct("42", "42");
  sum.parts = {{"math", 1, Outcome::kCorrect, 1, "", 0},
               {"length", 0.5, Outcome::kWrong, -1, "", 0}};
  Verdict failed = Unscorable("timeout");
  failed.parts = {{"s", 1, Outcome::kUnscorable, 0, "timeout", 0}};
  groups.AddScored(Scored(2, {{0, kNew}}, sum));
  groups.AddScored(Scored(0, {{0, kOld}}, failed));
  groups.AddScored(Scored(1, {{0, kOld}, {2, kNew}}, sum));
  const auto complete = groups.WaitForComplete(std::chrono::milliseconds(0));
  ASSERT_TRUE(complete.has_value());
  const Result<v1::Group> group = DecodeGroup(complete->group.bytes);
  ASSERT_TRUE(group.ok()) << group.status().message();
  const v1::GroupHead& head = group->head();
  EXPECT_EQ(head.group_id(), 7);
  EXPECT_EQ(group->sampling().seed(), 9);
  EXPECT_THAT(head.outcomes(), ElementsAre(3, 1, 1));
  EXPECT_THAT(head.rewards(), ElementsAre(0, 0.5, 0.5));
  EXPECT_THAT(head.component_names(), ElementsAre("math", "length"));
  EXPECT_THAT(head.components(), ElementsAre(0, 0, 1, -1, 1, -1));
  EXPECT_THAT(head.trained_lengths(), ElementsAre(0, 3, 3));
  EXPECT_THAT(group->unscorable_reasons(), ElementsAre("timeout", "", ""));
  EXPECT_THAT(group->extracted_answers(), ElementsAre("", "42", "42"));
  EXPECT_EQ(group->second_outcomes_size(), 0);
  ASSERT_EQ(head.versions_size(), 2);
  EXPECT_EQ(head.versions(0).digest(), kOld.digest);
  EXPECT_EQ(VersionSpansOf(*group, 0)[0].version, 0);
  EXPECT_EQ(VersionSpansOf(*group, 1)[1].tokens, (TokenSpan{2, 3}));
  EXPECT_EQ(VersionSpansOf(*group, 2)[0].version, 1);
  EXPECT_THAT(TokensOf(*group, 2), ElementsAre(5, 6, 2));
}

// A sample that fails and is sampled again, and a new lease of the group, change nothing of that.
TEST(HeldGroupsTest, AGroupIsScoredAtOnceWhereTheScoringWantsGroups) {
  HeldGroups groups("w", 1);
  WorkerLease work;
  work.lease.ref = {7, 1};
  work.lease.completions = 3;
  const auto sampled = [&](std::uint64_t epoch, std::int32_t index, bool whole) {
    EngineResult result;
    result.id = {7, epoch, index};
    std::vector<std::int32_t> scored;
    const auto request = groups.AddSampled(std::move(result), FakeScoring(whole));
    for (const EngineResult& sample : request ? request->samples : std::vector<EngineResult>())
      scored.push_back(sample.id.index);
    return scored;
  };
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(1, 2, /*whole=*/true), ElementsAre());
  ASSERT_TRUE(groups.Retry({7, 1, 0}).has_value());
  EXPECT_THAT(sampled(1, 1, true), ElementsAre());
  groups.Revoke({7, 1});
  work.lease.ref = {7, 2};
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(2, 1, true), ElementsAre());
  EXPECT_THAT(sampled(1, 0, true), ElementsAre()) << "of the lease that has ended";
  EXPECT_THAT(sampled(2, 2, true), ElementsAre());
  EXPECT_THAT(sampled(2, 0, true), ElementsAre(0, 1, 2));
  groups.Revoke({7, 2});
  work.lease.ref = {7, 3};
  ASSERT_TRUE(groups.Add(work));
  ASSERT_EQ(groups.StartRunnable(kOld).size(), 3);
  EXPECT_THAT(sampled(3, 1, /*whole=*/false), ElementsAre(1));
}

}  // namespace
}  // namespace buttress
