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

TEST(FirstBatchTest, AGoodBatchHasNoNotice) { EXPECT_THAT(FirstBatchNotices(Good()), IsEmpty()); }

TEST(FirstBatchTest, NamesWhatIsOff) {
  StepMeasurements step = Good();
  step.groups_informative = 0;
  step.truncated_share = 1;
  step.format_share = 0;
  step.kl = 0.5;
  EXPECT_THAT(
      FirstBatchNotices(step),
      ElementsAre(HasSubstr("rewards of the first batch are equal"), HasSubstr("max_tokens"),
                  HasSubstr("no answer"), HasSubstr("log-probs of worker and learner differ")));
  step = Good();
  step.over_long_prompts = 3;
  EXPECT_THAT(FirstBatchNotices(step), ElementsAre(AllOf(HasSubstr("3 prompts were passed over"),
                                                         HasSubstr("run.data.max_prompt_tokens"))));
  step = Good();
  step.unscorable = 2;
  EXPECT_THAT(FirstBatchNotices(step), ElementsAre(HasSubstr("25 % of the first batch")));
  step.unscorable = 8;
  step.groups_informative = 0;
  EXPECT_THAT(FirstBatchNotices(step), ElementsAre(HasSubstr("nothing of the first batch")));
}

// Older weights may differ.
TEST(FirstBatchTest, LogprobsAreComparedForTheSameWeightsOnly) {
  StepMeasurements step = Good();
  step.kl = 0.5;
  step.token_age_p99 = 1;
  EXPECT_THAT(FirstBatchNotices(step), IsEmpty());
}

}  // namespace
}  // namespace buttress
