#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/measure/alarms.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StepMeasurements Good() {
  StepMeasurements step;
  step.completions = 8;
  step.groups_informative = 1;
  step.format_share = 0.5;
  step.kl = 1e-5;
  return step;
}

// Of 32 prompts with 16 completions each.
SolvedPrompts Solved(std::int64_t solved) { return {.prompts = 32, .solved = solved, .tries = 16}; }

TEST(FirstBatchTest, AGoodBatchHasNoNotice) {
  EXPECT_THAT(FirstBatchNotices(Good(), Solved(4)), IsEmpty());
}

TEST(FirstBatchTest, NamesWhatIsOff) {
  StepMeasurements step = Good();
  step.groups_informative = 0;
  step.truncated_share = 0.97;
  step.format_share = 0.04;
  step.kl = 0.5;
  EXPECT_THAT(FirstBatchNotices(step, Solved(4)),
              ElementsAre(HasSubstr("rewards of the first batch are equal"),
                          HasSubstr("max_tokens"), HasSubstr("an answer in 4 %"),
                          HasSubstr("log-probs of worker and learner differ")));
  step = Good();
  step.over_long_prompts = 3;
  EXPECT_THAT(FirstBatchNotices(step, Solved(4)),
              ElementsAre(AllOf(HasSubstr("3 prompts were passed over"),
                                HasSubstr("run.data.max_prompt_tokens"))));
  step = Good();
  step.unscorable = 2;
  EXPECT_THAT(FirstBatchNotices(step, Solved(4)),
              ElementsAre(HasSubstr("25 % of the first batch")));
  step.unscorable = 8;
  step.groups_informative = 0;
  EXPECT_THAT(FirstBatchNotices(step, Solved(4)),
              ElementsAre(HasSubstr("nothing of the first batch")));
}

TEST(FirstBatchTest, AModelThatSolvesHardlyAPromptIsNamedWithTheInterval) {
  StepMeasurements equal = Good();
  equal.groups_informative = 0;
  EXPECT_THAT(
      FirstBatchNotices(equal, Solved(0)),
      ElementsAre("first batch: 0 of 32 prompts have a right completion in 16 tries (95 %: 0 "
                  "to 11 %): there is nothing to reinforce; see docs/not_learning.md"));
  EXPECT_THAT(FirstBatchNotices(Good(), Solved(0)),
              ElementsAre(HasSubstr("only what else is rewarded can be learned")));
  EXPECT_THAT(FirstBatchNotices(Good(), Solved(2)),
              ElementsAre(AllOf(HasSubstr("2 of 32 prompts"), HasSubstr("(95 %: 2 to 20 %)"),
                                HasSubstr("most groups teach nothing"))));
  EXPECT_THAT(FirstBatchNotices(Good(), {}), IsEmpty());
}

// Older weights may differ.
TEST(FirstBatchTest, LogprobsAreComparedForTheSameWeightsOnly) {
  StepMeasurements step = Good();
  step.kl = 0.5;
  step.token_age_p99 = 1;
  EXPECT_THAT(FirstBatchNotices(step, Solved(4)), IsEmpty());
}

}  // namespace
}  // namespace buttress
