#include "rollout_worker/scored_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "lib/experience/episodes.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const PolicyVersion kBefore{1, 3, std::string(32, 'a')};
const PolicyVersion kAfter{1, 4, std::string(32, 'b')};

EpisodeTurn TurnOf(std::int32_t begin, std::int32_t end, double reward) {
  EpisodeTurn turn;
  turn.begin = begin;
  turn.end = end;
  turn.reward = reward;
  turn.tools = {"calculator", ""};
  turn.failed_tools = 1;
  return turn;
}

EpisodeBranch BranchOf(std::vector<std::int32_t> tokens, std::vector<EpisodeTurn> turns,
                       std::vector<Segment> segments, std::int32_t parent = -1) {
  EpisodeBranch branch;
  branch.parent = parent;
  branch.logprobs.resize(tokens.size());
  for (const EpisodeTurn& turn : turns) {
    for (auto t = turn.begin; t < turn.end; ++t) branch.logprobs[static_cast<std::size_t>(t)] = -1;
  }
  branch.token_ids = std::move(tokens);
  branch.turns = std::move(turns);
  branch.segments = std::move(segments);
  return branch;
}

std::optional<ScoredCompletion> ScoredEpisode(std::vector<EpisodeBranch> branches, Verdict verdict,
                                              EpisodeEnd end = EpisodeEnd::kDone) {
  Episode episode;
  episode.branches = std::move(branches);
  episode.end = end;
  ScoredCompletion scored;
  scored.sample.episode = std::make_shared<const Episode>(std::move(episode));
  if (verdict.outcome != Outcome::kUnscorable)
    verdict.parts = {{"env", 1, verdict.outcome, verdict.raw_reward, "", 0}};
  scored.verdict = std::move(verdict);
  return scored;
}

v1::Group Checked(const std::vector<std::optional<ScoredCompletion>>& episodes,
                  bool mask_old = false) {
  Lease lease;
  lease.ref = {7, 1};
  lease.prompt_id = "p";
  lease.source = "s";
  lease.prompt_token_ids = {9};
  lease.min_version = kAfter;
  v1::Group group = GroupOf(lease, "w", episodes, mask_old);
  EXPECT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  return group;
}

TEST(ScoredGroupTest, AnEpisodeIsACompletionForEachBranchBehindTheTokensThatAllBeginWith) {
  const v1::Group group =
      Checked({ScoredEpisode({BranchOf({1, 2, 3, 4, 5, 6}, {TurnOf(3, 4, 0.25), TurnOf(5, 6, 0)},
                                       {{3, kBefore}, {5, kAfter}}),
                              BranchOf({1, 2, 8, 7}, {TurnOf(3, 4, 0)}, {{3, kAfter}}, 0)},
                             Correct("1", "1")),
               ScoredEpisode({}, Unscorable("no server"), EpisodeEnd::kFailed),
               ScoredEpisode({BranchOf({1, 2, 4}, {TurnOf(2, 3, 0)}, {{2, kAfter}})},
                             Wrong("1", "2"), EpisodeEnd::kTurns)});
  const v1::GroupHead& head = group.head();
  EXPECT_THAT(PromptOf(group), ElementsAre(1, 2));
  EXPECT_EQ(head.prompt_tokens(), 2);
  EXPECT_THAT(head.parents(), ElementsAre(-1, 0, -1, -1));
  EXPECT_THAT(TokensOf(group, 0), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(LogprobsOf(group, 0), ElementsAre(0, -1, 0, -1));
  EXPECT_THAT(TokensOf(group, 1), ElementsAre(8, 7));
  EXPECT_THAT(TokensOf(group, 2), IsEmpty());
  EXPECT_THAT(TokensOf(group, 3), ElementsAre(4));
  EXPECT_THAT(TrainedSpansOf(group, 0), ElementsAre(TokenSpan{1, 2}, TokenSpan{3, 4}));
  EXPECT_THAT(head.trained_lengths(), ElementsAre(2, 1, 0, 1));
  EXPECT_THAT(head.outcomes(), ElementsAre(1, 1, 3, 2));
  EXPECT_THAT(head.raw_rewards(), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(head.turns(), ElementsAre(2, 1, 0, 1));
  EXPECT_THAT(head.turn_rewards(), ElementsAre(0.25, 0, 0.75, 0)) << "the rest comes last";
  EXPECT_THAT(head.episode_ends(), ElementsAre(1, 1, 6, 2));
  EXPECT_EQ(UnscorableReasonOf(group, 2), "no server");
  EXPECT_THAT(group.turns(0).tools(), ElementsAre("calculator", ""));
  EXPECT_THAT(head.tool_calls(), ElementsAre(4, 2, 0, 2));
  EXPECT_THAT(head.failed_tool_calls(), ElementsAre(2, 1, 0, 1));
  // What others wrote has the version of the turn before it.
  ASSERT_EQ(VersionSpansOf(group, 0).size(), 2);
  EXPECT_EQ(VersionSpansOf(group, 0)[0].tokens, (TokenSpan{0, 3}));
  EXPECT_EQ(VersionSpansOf(group, 0)[1].tokens, (TokenSpan{3, 4}));
  EXPECT_EQ(VersionSpansOf(group, 1)[0].tokens, (TokenSpan{0, 2}));
}

TEST(ScoredGroupTest, AnAnswerThatEqualsAnEarlierOneOfItsConversationIsRepeated) {
  const v1::Group group = Checked(
      {ScoredEpisode({BranchOf({1, 2, 5, 2, 6, 3, 2, 2, 3},
                               {TurnOf(1, 2, 0), TurnOf(3, 4, 0), TurnOf(5, 7, 0), TurnOf(7, 8, 0)},
                               {{1, kAfter}}),
                      BranchOf({1, 2, 8, 2}, {TurnOf(3, 4, 0)}, {{3, kAfter}}, 0)},
                     Correct("1", "1"))});
  EXPECT_THAT(group.head().repeated_answers(), ElementsAre(2, 0));
}

TEST(ScoredGroupTest, AnEpisodeOfOneTurnIsTheCompletionThatItWouldBe) {
  ScoredCompletion plain;
  plain.sample.token_ids = {4, 5};
  plain.sample.logprobs = {-1, -1};
  plain.sample.segments = {{0, kAfter}};
  plain.sample.finish_reason = FinishReason::kStop;
  plain.verdict = Correct("1", "1");
  plain.verdict.parts = {{"env", 1, Outcome::kCorrect, 1, "", 0}};
  const v1::Group expected = Checked({plain});
  v1::Group group = Checked({ScoredEpisode(
      {BranchOf({9, 4, 5}, {TurnOf(1, 3, 0.3)}, {{1, kAfter}})}, Correct("1", "1"))});
  EXPECT_THAT(group.head().turn_rewards(), ElementsAre(1));
  group.clear_turns();
  group.mutable_head()->clear_turns();
  group.mutable_head()->clear_turn_rewards();
  group.mutable_head()->clear_episode_ends();
  group.mutable_head()->clear_tool_calls();
  group.mutable_head()->clear_failed_tool_calls();
  group.mutable_head()->clear_repeated_answers();
  EXPECT_EQ(group.SerializeAsString(), expected.SerializeAsString());
}

TEST(ScoredGroupTest, ATurnOlderThanTheLeaseAllowsIsNotTrained) {
  const auto episodes = [] {
    return std::vector{
        ScoredEpisode({BranchOf({9, 2, 3, 4, 5, 6}, {TurnOf(1, 2, 0), TurnOf(3, 6, 0)},
                                {{1, kBefore}, {4, kAfter}})},
                      Wrong("1", "2"))};
  };
  EXPECT_THAT(TrainedSpansOf(Checked(episodes()), 0),
              ElementsAre(TokenSpan{0, 1}, TokenSpan{2, 5}));
  const v1::Group masked = Checked(episodes(), /*mask_old=*/true);
  EXPECT_THAT(TrainedSpansOf(masked, 0), ElementsAre(TokenSpan{3, 5}));
  EXPECT_THAT(masked.head().trained_lengths(), ElementsAre(2));
}

TEST(ScoredGroupTest, ConversationsWithoutACommonTokenAreUnscorable) {
  const v1::Group group =
      Checked({ScoredEpisode({BranchOf({1, 2}, {TurnOf(1, 2, 0)}, {{1, kAfter}})}, Correct("", "")),
               ScoredEpisode({BranchOf({3, 2}, {TurnOf(1, 2, 0)}, {{1, kAfter}})}, Wrong("", ""))});
  EXPECT_THAT(group.head().outcomes(), ElementsAre(3, 3));
  EXPECT_THAT(group.head().lengths(), ElementsAre(0, 0));
  EXPECT_THAT(PromptOf(group), ElementsAre(9));
  EXPECT_THAT(UnscorableReasonOf(group, 0), HasSubstr("do not begin with the same token"));
}

TEST(ScoredGroupTest, AGroupWithoutAnyBranchIsUnscorable) {
  const v1::Group group =
      Checked({ScoredEpisode({}, Unscorable("exit status 1"), EpisodeEnd::kFailed)});
  EXPECT_THAT(PromptOf(group), ElementsAre(9));
  EXPECT_THAT(group.head().episode_ends(), ElementsAre(v1::EPISODE_END_FAILED));
  EXPECT_EQ(UnscorableReasonOf(group, 0), "exit status 1");
}

}  // namespace
}  // namespace buttress
