#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/understand/samples.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SampledGroup GroupOf(const std::vector<std::string>& texts) {
  SampledGroup group;
  group.group.group_id = 7;
  group.group.step = 3;
  group.group.prompt.prompt_id = "p1";
  v1::GroupHead head = MakeHead(7, std::vector(texts.size(), Outcome::kWrong));
  for (int i = 0; i < head.lengths_size(); ++i) head.set_lengths(i, 2);
  head.set_collapse(v1::COLLAPSE_CLASS_MIXED);
  group.head = std::make_shared<const v1::GroupHead>(head);
  group.prompt = "1+1=";
  for (const std::string& text : texts) {
    Sample& sample = group.samples.emplace_back();
    sample.text = text;
  }
  return group;
}

TEST(SamplesTextTest, ACompletionCannotCommandTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\rc\n\xe2\x80\xae"
                      "d"),
            "a<U+001B>[2Jb<U+000D>c\n<U+202E>d");
  EXPECT_EQ(Printable("\xff"), "\xef\xbf\xbd");
  const std::string text = SamplesText(GroupOf({"\x1b]0;title\x07"}), {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("<U+001B>]0;title<U+0007>"));
}

TEST(SamplesTextTest, AnEpisodeShowsWhoWroteWhatAndWhatItsTurnsWereWorth) {
  SampledGroup group = GroupOf({"<4>", "5"});
  v1::GroupHead head = *group.head;
  for (const std::int32_t parent : {-1, 0}) {
    head.add_parents(parent);
    head.add_turns(1);
    head.add_turn_rewards(0);
    head.add_episode_ends(v1::EPISODE_END_TOOLS);
  }
  group.head = std::make_shared<const v1::GroupHead>(head);
  v1::Turn turn;
  turn.set_waited_ms(3);
  turn.set_sampled_ms(40);
  turn.add_tools("calculator\x1b");
  turn.set_failed_tools(1);
  group.samples[0].turns = {turn};
  group.samples[0].turn_rewards = {0.25};
  group.prompt_messages = {{"system", "Add."}, {"user", "1+1"}};
  group.samples[0].parts = {{"<|tool|>\n<", -1, {{"tool", "<"}}},
                            {"4><|end|>", 0, {{"assistant", "4>"}}}};
  const std::string text = SamplesText(group, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("mixed, 0 of 1 correct"));
  EXPECT_THAT(text, HasSubstr("  > system: Add.\n  > user: 1+1\n"));
  EXPECT_THAT(text, HasSubstr("  0  wrong  raw reward 0.000  2 tokens  end tools\n     : tool: <\n"
                              "     | 4>\n       turn 1: reward 0.250, asked after 3 ms, answered "
                              "in 40 ms, \n       calculator<U+001B>, 1 failed\n"));
  EXPECT_THAT(text, HasSubstr("  1  wrong  raw reward 0.000  2 tokens  end tools  branch of 0\n"));
}

TEST(SamplesTextTest, LinesBreakAtSpacesAndWithinLongWords) {
  EXPECT_EQ(Wrapped("aaaa bbbb cccc dddd eeee ffff", "> ", 24),
            "> aaaa bbbb cccc dddd \n> eeee ffff\n");
  EXPECT_EQ(Wrapped(std::string(25, 'x'), "", 20), std::string(20, 'x') + "\nxxxxx\n");
  EXPECT_EQ(Wrapped("a\n\nb", "  ", 40), "  a\n  \n  b\n");
  EXPECT_EQ(Wrapped("\u00e9\u00e9", "", 1), "\u00e9\u00e9\n");  // never narrower than 20
}

TEST(SamplesTextTest, AGroupShowsItsFirstCompletionsAndSaysHowManyThereAre) {
  SampledGroup group = GroupOf({"2", "3", "4", "5", "6"});
  v1::GroupHead head = *group.head;
  head.set_outcomes(0, v1::OUTCOME_CORRECT);
  head.set_rewards(0, 1);
  head.set_raw_rewards(0, 1);
  head.set_finish_reasons(1, v1::FINISH_REASON_LENGTH);
  group.head = std::make_shared<const v1::GroupHead>(head);
  const std::string text = SamplesText(group, {.columns = 80, .completions = 2});
  EXPECT_THAT(text, HasSubstr("step 3, group 7: mixed, 1 of 5 correct; prompt p1\n  > 1+1=\n"));
  EXPECT_THAT(text, HasSubstr("  0  correct  raw reward 1.000  2 tokens\n     | 2\n"));
  EXPECT_THAT(text, HasSubstr("  1  wrong  raw reward 0.000  2 tokens  truncated\n     | 3\n"));
  EXPECT_THAT(text, HasSubstr("... 3 more; --completions 0 shows all"));
  EXPECT_THAT(SamplesText(group, {.columns = 80, .completions = 0}), HasSubstr("     | 6\n"));
}

TEST(SamplesTextTest, TheComponentsOfARewardHaveNames) {
  SampledGroup group = GroupOf({"2"});
  v1::GroupHead head = *group.head;
  head.set_outcomes(0, v1::OUTCOME_CORRECT);
  head.set_raw_rewards(0, 1);
  head.set_rewards(0, 1.1);
  for (const char* name : {"answer", "fmt"}) head.add_component_names(name);
  for (const double weight : {1.0, 0.2}) head.add_component_weights(weight);
  for (const double value : {1.0, 0.5}) head.add_components(value);
  group.head = std::make_shared<const v1::GroupHead>(head);
  EXPECT_THAT(SamplesText(group, {}),
              HasSubstr("0  correct  raw reward 1.100  2 tokens\n"
                        "     = answer 1.000 + 0.2 * fmt 0.500\n     | 2\n"));
  const auto completion = SamplesJson(group)["completions"][0];
  EXPECT_EQ(completion["raw_reward"], 1.1);
  EXPECT_EQ(completion["components"].dump(), R"({"answer":1.0,"fmt":0.5})");
}

TEST(SamplesTextTest, WithoutTextsTheReasonStandsInTheirPlace) {
  SampledGroup group = GroupOf({"2"});
  group.prompt.reset();
  group.samples[0].text.reset();
  group.why_no_texts = "the texts are deleted";
  EXPECT_THAT(SamplesText(group, {}), HasSubstr("  the texts are deleted\n  0  wrong"));
  const auto shown = SamplesJson(group);
  EXPECT_TRUE(shown["prompt_text"].is_null());
  EXPECT_TRUE(shown["completions"][0]["text"].is_null());
  EXPECT_EQ(shown["why_no_texts"], "the texts are deleted");
}

}  // namespace
}  // namespace buttress
