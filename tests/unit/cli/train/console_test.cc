#include "cli/train/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() {
    config_.run.steps = 9;
    config_.local.out = dir_.path();
  }

  // The learner writes steps.
  void Train(int first, int last, const std::vector<Alarm>& alarms = {}) const {
    for (int number = first; number <= last; ++number) {
      StepMeasurements step;
      step.step = number;
      step.time_unix = 60.0 * number;
      step.alarms = alarms;
      EXPECT_TRUE(AppendStep(path_, step).ok());
    }
  }

  // What the console prints meanwhile.
  template <class Use>
  static std::string Printed(Use use) {
    testing::internal::CaptureStdout();
    use();
    return testing::internal::GetCapturedStdout();
  }

  const TempDir dir_;
  const std::string path_ = JoinPath(dir_.path(), "steps.jsonl");
  RunConfig config_;
};

TEST_F(ConsoleTest, AResumeSaysWhereItContinuesAndPrintsNewStepsOnly) {
  Train(1, 6);
  Console console(config_, /*verbose=*/true);
  EXPECT_EQ(Printed([&] { EXPECT_TRUE(console.Follow(4).ok()); }),
            "launch: continues at step 5 of 9 from the checkpoint of step 4\n");
  EXPECT_EQ(Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); }), "");
  EXPECT_FALSE(console.took_steps());
  ASSERT_TRUE(TruncateSteps(path_, 4).ok());  // by the learner
  EXPECT_EQ(Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); }), "");
  Train(5, 6);
  const std::string text = Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); });
  // The pace is that of the new steps.
  EXPECT_THAT(text, AllOf(Not(HasSubstr("step 4/9")), HasSubstr("step 5/9"), HasSubstr("left ?"),
                          HasSubstr("step 6/9"), HasSubstr("left 3m00s")));
  EXPECT_EQ(console.step(), 6);
  EXPECT_TRUE(console.took_steps());
  // A learner that is started again during the launch repeats steps.
  ASSERT_TRUE(TruncateSteps(path_, 5).ok());
  Train(6, 7);
  EXPECT_THAT(Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); }),
              AllOf(Not(HasSubstr("step 6/9")), HasSubstr("step 7/9")));
}

TEST_F(ConsoleTest, AFileHasTheFirstAndTheLastStepButNotEachOne) {
  Console console(config_, /*verbose=*/false);
  EXPECT_EQ(Printed([&] { EXPECT_TRUE(console.Follow(0).ok()); }), "");
  const std::string text = Printed([&] {
    for (int step = 1; step <= 9; ++step) {
      Train(step, step);
      EXPECT_TRUE(console.ShowSteps().ok());
    }
  });
  EXPECT_THAT(text, AllOf(HasSubstr("step 1/9"), HasSubstr("step 9/9 100%")));
  EXPECT_LT(std::ranges::count(text, '\n'), 9);
}

TEST_F(ConsoleTest, ARunThatIsStoppedEndsWithTheLineOfItsNewestStep) {
  Console console(config_, /*verbose=*/false);
  ASSERT_TRUE(console.Follow(0).ok());
  Train(1, 1);
  Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); });
  Train(2, 3);
  EXPECT_THAT(Printed([&] { EXPECT_TRUE(console.ShowLastStep().ok()); }), HasSubstr("step 3/9"));
  EXPECT_EQ(Printed([&] { EXPECT_TRUE(console.ShowLastStep().ok()); }), "");
}

TEST_F(ConsoleTest, AnAlarmIsExplainedOnceWithItsAdvice) {
  Console console(config_, /*verbose=*/false);
  ASSERT_TRUE(console.Follow(0).ok());
  Train(1, 2, {Alarm::kEntropyLow});
  const std::string text = Printed([&] { EXPECT_TRUE(console.ShowSteps().ok()); });
  EXPECT_THAT(text, AllOf(HasSubstr("alarm entropy_low, from step 1 on: The policy hardly varies"),
                          HasSubstr("alarms.entropy_floor"), Not(HasSubstr("from step 2 on"))));
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    longest = std::max(longest, text.find('\n', at) - at);
  EXPECT_LE(longest, 100U);
}

}  // namespace
}  // namespace buttress
