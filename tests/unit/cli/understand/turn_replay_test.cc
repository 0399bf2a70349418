#include "cli/understand/turn_replay.h"

#include <gmock/gmock.h>

#include "cli/understand/turn_report.h"
#include "lib/base/text/random.h"
#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

void AddCompletion(v1::Group& group, const std::vector<std::int32_t>& tokens, int parent) {
  group.mutable_head()->add_outcomes(v1::OUTCOME_WRONG);
  group.mutable_head()->add_lengths(static_cast<std::int32_t>(tokens.size()));
  group.mutable_head()->add_parents(parent);
  group.mutable_token_ids()->Add(tokens.begin(), tokens.end());
}

void AddTurn(v1::Group& group, int completion, int begin, int end, const char* tool = nullptr) {
  v1::Turn& turn = *group.add_turns();
  turn.set_completion(completion);
  turn.set_begin(begin);
  turn.set_end(end);
  if (tool != nullptr) turn.add_tools(tool);
}

void AddSegment(v1::Group& group, int completion, int first_token, int version) {
  v1::Segment& segment = *group.add_segments();
  segment.set_completion(completion);
  segment.set_first_token(first_token);
  segment.set_version(version);
}

// Episodes of two turns with a tool between them, of two branches, and of two turns, the last of
// which two versions sampled.
v1::Group ThreeEpisodes() {
  v1::Group group;
  v1::GroupHead& head = *group.mutable_head();
  head.set_group_id(7);
  head.set_prompt_tokens(2);
  head.add_versions();
  head.add_versions()->set_step(3);
  group.add_prompt_token_ids(1);
  group.add_prompt_token_ids(2);
  AddCompletion(group, {11, 12, 13, 14, 15}, -1);
  AddCompletion(group, {21, 22}, -1);
  AddCompletion(group, {23, 24}, 1);
  AddCompletion(group, {31, 32, 33, 34}, -1);
  AddTurn(group, 0, 0, 2, "calculator");
  AddTurn(group, 0, 3, 5);
  AddTurn(group, 1, 0, 2);
  AddTurn(group, 2, 1, 2);
  AddTurn(group, 3, 0, 1);
  AddTurn(group, 3, 2, 4);
  for (int i = 0; i < 3; ++i) AddSegment(group, i, 0, 0);
  AddSegment(group, 3, 0, 0);
  AddSegment(group, 3, 3, 1);
  v1::SamplingParams& sampling = *group.mutable_sampling();
  sampling.set_temperature(1);
  sampling.set_top_p(1);
  sampling.set_max_tokens(100);
  sampling.set_seed(5);
  return group;
}

TEST(TurnReplayTest, ATurnHasWhatItWasSampledFrom) {
  RecordedTurns recorded;
  AddTurnsOf(ThreeEpisodes(), recorded);
  EXPECT_EQ(recorded.in_branches, 2);
  EXPECT_EQ(recorded.of_several, 1);
  ASSERT_THAT(recorded.turns, SizeIs(3));
  const RecordedTurn &first = recorded.turns[0], &second = recorded.turns[1];
  EXPECT_THAT(first.context, ElementsAre(1, 2));
  EXPECT_THAT(first.answer, ElementsAre(11, 12));
  EXPECT_THAT(first.tools, ElementsAre("calculator"));
  EXPECT_EQ(first.sampling.seed, MixSeed(MixSeed(5, 0), 0));
  EXPECT_EQ(first.sampling.max_tokens, 2);
  EXPECT_THAT(second.context, ElementsAre(1, 2, 11, 12, 13)) << "with what the tool said";
  EXPECT_THAT(second.answer, ElementsAre(14, 15));
  EXPECT_EQ(second.sampling.seed, MixSeed(MixSeed(5, 0), 1));
  EXPECT_EQ(second.turn, 1);
  const RecordedTurn& third = recorded.turns[2];
  EXPECT_EQ(third.episode, 2) << "a branch is no episode";
  EXPECT_EQ(third.sampling.seed, MixSeed(MixSeed(5, 2), 0));
  EXPECT_EQ(third.version.step, 0U);
}

TEST(TurnReplayTest, AnEpisodeIsLeftWhereAnAnswerDiffersFirst) {
  RecordedTurns recorded;
  AddTurnsOf(ThreeEpisodes(), recorded);
  TurnReport report(false, nullptr);
  report.Add(recorded.turns[0], {11, 99});
  report.Add(recorded.turns[1], {14});
  report.Add(recorded.turns[2], {31});
  const std::string text = report.Summary(recorded, "start");
  EXPECT_THAT(text, HasSubstr("1 of 2 episodes are as they were recorded, answered by start"));
  EXPECT_THAT(text, HasSubstr("1 of 3 answers that weights of step 0 sampled are equal"));
  EXPECT_THAT(text, HasSubstr("group 7, episode 0 leaves at turn 0, token 1: [11,99] was [11,12]"));
  EXPECT_THAT(text, Not(HasSubstr("turn 1"))) << "what comes behind is of another conversation";
  EXPECT_THAT(text, HasSubstr("2 answers of episodes with branches are left out"));
  EXPECT_THAT(text, HasSubstr("1 answers are left out that several versions sampled"));
}

TEST(TurnReplayTest, ARunWithoutEpisodesIsRefused) {
  RunFolder folder;
  folder.StoreConfig(false);
  const Status refused = ReplayTurns({.folder = folder.path()});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("its completions are no episodes"));
}

}  // namespace
}  // namespace buttress
