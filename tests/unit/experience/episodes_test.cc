#include "lib/experience/episodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>

#include "lib/experience/group.h"
#include "lib/experience/plan.h"
#include "tests/support/test_group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void AddTurn(v1::Group& group, std::int32_t completion, TokenSpan tokens, double reward) {
  v1::Turn& turn = *group.add_turns();
  turn.set_completion(completion);
  turn.set_begin(tokens.begin);
  turn.set_end(tokens.end);
  turn.add_tools("search");
  group.mutable_head()->add_turn_rewards(reward);
  group.mutable_head()->set_turns(completion, group.head().turns(completion) + 1);
  AddTrainedSpan(group, completion, tokens);
}

// An episode with a branch, of three turns in all, one of two turns, and one that failed before the
// policy was asked.
v1::Group GoodEpisodes() {
  v1::Group group = NewGroup(3);
  v1::GroupHead& head = *group.mutable_head();
  const auto add = [&](const std::vector<float>& logprobs, double reward, int parent) {
    AppendTokens(group, std::vector<std::int32_t>(logprobs.size(), 7), logprobs,
                 FinishReason::kStop);
    AppendReward(head, reward > 0 ? Outcome::kCorrect : Outcome::kWrong, reward, reward);
    head.add_parents(parent);
    head.add_turns(0);
    head.add_episode_ends(v1::EPISODE_END_DONE);
  };
  add({0, -1, -1, 0, -1, 0}, 1, -1);
  add({0, 0, -1}, 1, 0);
  add({-1, 0, -1}, 0, -1);
  AppendTokens(group, {}, {}, FinishReason::kError);
  AppendReward(head, Outcome::kUnscorable, 0, 0);
  head.add_parents(-1);
  head.add_turns(0);
  head.add_episode_ends(v1::EPISODE_END_TIME);
  for (const char* reason : {"", "", "", "time"}) group.add_unscorable_reasons(reason);
  AddTurn(group, 0, {1, 3}, 0.25);
  AddTurn(group, 0, {4, 5}, 0);
  AddTurn(group, 1, {2, 3}, 0.75);
  AddTurn(group, 2, {0, 1}, 0.5);
  AddTurn(group, 2, {2, 3}, -0.5);
  for (const int turns : {2, 1, 2, 0}) {
    head.add_tool_calls(turns);
    head.add_failed_tool_calls(0);
    head.add_repeated_answers(std::max(0, turns - 1));
  }
  return group;
}

TEST(EpisodesTest, StatisticsCountAnEpisodeOnce) {
  const v1::Group group = GoodEpisodes();
  ASSERT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  EXPECT_EQ(Episodes(group.head()), 3);
  EXPECT_THAT(EpisodeOffsets(group.head()), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(VerdictsOf(group.head()).raw_rewards, ElementsAre(1, 0, 0));
  EXPECT_THAT(VerdictsOf(group.head()).outcomes,
              ElementsAre(Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable));
  EXPECT_EQ(OwnHistoryOf(group.head()), (PromptHistory{1, 2}));
  v1::Group derived = group;
  FillDerivedColumns(derived);
  EXPECT_THAT(derived.head().sampled_lengths(), ElementsAre(3, 1, 2, 0));
  EXPECT_EQ(TokensOf(derived.head()), 6);
  EXPECT_THAT(derived.head().logprob_sums(), ElementsAre(-3, -1, -2, 0));
  DrawnTotals drawn;
  drawn.Add(derived.head());
  EXPECT_EQ(drawn, (DrawnTotals{.completions = 3, .scorable = 2, .tokens = 6, .raw_reward = 1}));
  v1::GroupHead plain = group.head();
  plain.clear_parents();
  EXPECT_EQ(Episodes(plain), 4);
  EXPECT_THAT(EpisodeOffsets(plain), ElementsAre(0, 1, 2, 3, 4));
}

TEST(EpisodesTest, ASketchIsOfWhatThePolicyWrote) {
  const v1::Group group = GoodEpisodes();
  const auto sketch = [&](int changed) {
    v1::Group other = group;
    if (changed >= 0) other.set_token_ids(changed, other.token_ids(changed) + 1);
    FillDerivedColumns(other);
    return TokenSketchOf(other.head(), 0);
  };
  EXPECT_EQ(sketch(3), sketch(-1));  // of the environment
  EXPECT_NE(sketch(4), sketch(-1));  // of the second turn
}

struct EpisodeRefusal {
  const char* what;
  std::function<void(v1::Group& group)> change;
  const char* message;  // part of it
};

class CheckEpisodesTest : public testing::TestWithParam<EpisodeRefusal> {};

TEST(EpisodesTest, ARunWithoutEpisodesRefusesThem) {
  const Status status = CheckGroup(GoodEpisodes(), {.max_branches = 0});
  EXPECT_THAT(status.message(), HasSubstr("column parents has 4 entries; expected 0"));
}

TEST(EpisodesTest, GroupsOfEarlierVersionsCountNoToolCalls) {
  v1::Group group = GoodEpisodes();
  group.mutable_head()->clear_tool_calls();
  group.mutable_head()->clear_failed_tool_calls();
  group.mutable_head()->clear_repeated_answers();
  EXPECT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
}

TEST_P(CheckEpisodesTest, Rejects) {
  v1::Group group = GoodEpisodes();
  GetParam().change(group);
  const Status status = CheckGroup(group, {.max_completions = 3, .max_branches = 2});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

v1::GroupHead& EpisodesHead(v1::Group& group) { return *group.mutable_head(); }

v1::Turn& TurnAt(v1::Group& group, int t) { return *group.mutable_turns(t); }

const EpisodeRefusal kEpisodeRefusals[] = {
    {"many episodes", [](v1::Group& g) { EpisodesHead(g).set_parents(1, -1); },
     "4 episodes; expected 1 to 3"},
    {"many branches", [](v1::Group& g) { EpisodesHead(g).set_parents(2, 0); },
     "completion 0: its episode has more than 2 completions"},
    {"parent in another episode", [](v1::Group& g) { EpisodesHead(g).set_parents(3, 1); },
     "completion 3: parent = 1; expected the index of an earlier completion of its episode, which "
     "is completion 2"},
    {"outcome of a branch",
     [](v1::Group& g) { EpisodesHead(g).set_outcomes(1, v1::OUTCOME_WRONG); },
     "completion 1: outcome 2, raw_reward = 1, reward = 1; expected those and the end of "
     "completion 0"},
    {"end of a branch",
     [](v1::Group& g) { EpisodesHead(g).set_episode_ends(1, v1::EPISODE_END_TURNS); },
     "completion 1: outcome 1"},
    {"turns", [](v1::Group& g) { EpisodesHead(g).add_turns(0); },
     "column turns has 5 entries; expected 4"},
    {"ends", [](v1::Group& g) { EpisodesHead(g).clear_episode_ends(); },
     "column episode_ends has 0"},
    {"ends without turns",
     [](v1::Group& g) {
       EpisodesHead(g).clear_turns();
       EpisodesHead(g).clear_turn_rewards();
     },
     "column episode_ends has 4 entries; expected 0"},
    {"turn rewards", [](v1::Group& g) { EpisodesHead(g).add_turn_rewards(0); },
     "column turn_rewards has 6 entries; expected 5"},
    {"more turns than tokens", [](v1::Group& g) { EpisodesHead(g).set_turns(3, 1); },
     "completion 3: 1 turns; expected 0 to 0"},
    {"tool calls", [](v1::Group& g) { EpisodesHead(g).add_tool_calls(0); },
     "column tool_calls has 5 entries; expected 4"},
    {"failed calls", [](v1::Group& g) { EpisodesHead(g).clear_failed_tool_calls(); },
     "column failed_tool_calls has 0 entries; expected 4"},
    {"repeated answers without calls", [](v1::Group& g) { EpisodesHead(g).clear_tool_calls(); },
     "column failed_tool_calls has 4 entries; expected 0"},
    {"more failed calls than calls",
     [](v1::Group& g) { EpisodesHead(g).set_failed_tool_calls(2, 3); },
     "completion 2: 3 of 2 tool calls failed"},
    {"negative calls", [](v1::Group& g) { EpisodesHead(g).set_tool_calls(3, -1); },
     "completion 3: 0 of -1 tool calls failed"},
    {"first answer repeated", [](v1::Group& g) { EpisodesHead(g).set_repeated_answers(1, 1); },
     "completion 1: 1 repeated answers of 1 turns"},
    {"calls of the turns", [](v1::Group& g) { EpisodesHead(g).set_tool_calls(0, 4); },
     "completion 0: tool_calls = 4, failed_tool_calls = 0; expected 2 and 0"},
    {"no end",
     [](v1::Group& g) { EpisodesHead(g).set_episode_ends(2, v1::EPISODE_END_UNSPECIFIED); },
     "completion 2: episode_end = 0"},
    {"scored and failed",
     [](v1::Group& g) { EpisodesHead(g).set_episode_ends(2, v1::EPISODE_END_FAILED); },
     "completion 2: the episode timed out or failed; expected it to be unscorable"},
    {"turn rewards that do not add up",
     [](v1::Group& g) { EpisodesHead(g).set_turn_rewards(2, 1); },
     "completion 0: the rewards of the 3 turns of its episode add up to 1.25; expected raw_reward "
     "= 1"},
    {"huge turn rewards",
     [](v1::Group& g) {
       EpisodesHead(g).set_turn_rewards(3, 1e300);
       EpisodesHead(g).set_turn_rewards(4, -1e300);
     },
     "completion 2: the rewards of the 2 turns"},
    {"turns of the group", [](v1::Group& g) { g.mutable_turns()->RemoveLast(); },
     "column turns of the group has 4 entries; expected 5"},
    {"turn of another completion", [](v1::Group& g) { TurnAt(g, 1).set_completion(1); },
     "turns[1] = [4, 5) of completion 1"},
    {"turn past the end", [](v1::Group& g) { TurnAt(g, 1).set_end(7); }, "turns[1] = [4, 7)"},
    {"turns that overlap", [](v1::Group& g) { TurnAt(g, 1).set_begin(2); }, "turns[1] = [2, 5)"},
    {"turn without tokens", [](v1::Group& g) { TurnAt(g, 2).set_end(2); }, "turns[2] = [2, 2)"},
    {"negative time", [](v1::Group& g) { TurnAt(g, 2).set_waited_ms(-1); },
     "-1 ms after the turn before"},
    {"name of a tool", [](v1::Group& g) { TurnAt(g, 0).set_tools(0, std::string(2000, 'x')); },
     "turns[0]: the name of a tool has 2000 bytes"},
    {"trained outside of turns",
     [](v1::Group& g) {
       g.mutable_trained_spans(1)->set_end(6);
       EpisodesHead(g).set_trained_lengths(0, 4);
     },
     "completion 0: trains the tokens [4, 6), which are not in one turn"},
    {"trained whole",
     [](v1::Group& g) {
       g.mutable_trained_spans()->DeleteSubrange(0, 2);
       EpisodesHead(g).set_trained_lengths(0, 6);
     },
     "completion 0: trains the tokens [0, 6)"},
    {"log-prob of a tool", [](v1::Group& g) { g.set_logprobs(3, -2); },
     "completion 0: logprobs[3] = -2 outside of the turns"},
};

INSTANTIATE_TEST_SUITE_P(Everything, CheckEpisodesTest, testing::ValuesIn(kEpisodeRefusals),
                         [](const auto& refusal) {
                           std::string name = refusal.param.what;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace buttress
