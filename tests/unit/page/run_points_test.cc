#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/page/page_data.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::uint64_t kMostBytes = 4 << 20;  // of a large file, in one update

class RunPointsTest : public ::testing::Test {
 protected:
  void Write(int first, int last, double reward = 0.5) {
    std::string lines;
    for (int n = first; n <= last; ++n) {
      StepMeasurements step;
      step.step = n;
      step.time_unix = 1000 + 2 * n;
      step.raw_reward_mean = reward;
      step.components = {{"answer", reward, 1}};
      step.start_kl = StepMeasurements::kNotMeasured;
      lines += StepToJson(step) + "\n";
    }
    ASSERT_TRUE(AppendToFile(path_, lines).ok());
  }

  static double StepOf(const nlohmann::ordered_json& point) { return point["values"][0]; }

  static nlohmann::ordered_json ValueOf(const nlohmann::ordered_json& point,
                                        std::string_view name) {
    const auto table = MeasurementTable();
    const auto at = std::ranges::find(table, name, &Measurement::name) - table.begin();
    return point["values"][static_cast<std::size_t>(at)];
  }

  TempDir dir_;
  const std::string path_ = JoinPath(dir_.path(), "steps.jsonl");
  const std::string received_ = JoinPath(dir_.path(), "received_steps.jsonl");
  RunPoints points_{path_, received_, AlarmConfig()};
};

TEST_F(RunPointsTest, EachReaderGetsWhatItDoesNotHave) {
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  EXPECT_TRUE(points_.After(-1, 10).empty());
  Write(1, 5, 0.25);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  Write(6, 8);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  const auto all = points_.After(-1, 100);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(ValueOf(all[0], "raw_reward_mean"), 0.25);
  EXPECT_EQ(all[0]["components"]["answer"], 0.25);
  EXPECT_TRUE(ValueOf(all[0], "start_kl").is_null());
  const auto some = points_.After(5, 2);
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(StepOf(some[0]), 6);
}

TEST_F(RunPointsTest, WithoutTheLearnersFileTheReceivedStepsAreShown) {
  Write(1, 3);
  std::filesystem::rename(path_, received_);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  EXPECT_EQ(points_.After(-1, 100).size(), 3U);
  Write(1, 5);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  EXPECT_EQ(points_.After(-1, 100).size(), 5U) << "the file itself is there by now";
}

TEST_F(RunPointsTest, EvaluationsAreOfTheStepOfTheirWeights) {
  Write(1, 4);
  StepMeasurements step;
  step.step = 5;
  step.eval_step = 3;
  step.eval_accuracy = 0.75;
  ASSERT_TRUE(AppendToFile(path_, StepToJson(step) + "\n").ok());
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  ASSERT_EQ(points_.Evals().size(), 1U);
  EXPECT_EQ(points_.Evals()[0]["step"], 3);
  EXPECT_EQ(points_.Evals()[0]["accuracy"], 0.75);
  EXPECT_TRUE(points_.Evals()[0]["raw_reward_mean"].is_null());
  Write(5, 6);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  EXPECT_TRUE(points_.Evals().empty()) << "the step that held it was trained again";
}

TEST_F(RunPointsTest, StepsThatAreTrainedAgainReplaceTheOldOnes) {
  Write(1, 10);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  const std::int64_t before = points_.generation();
  ASSERT_TRUE(TruncateSteps(path_, 5).ok());
  Write(6, 7, 0.75);
  ASSERT_TRUE(points_.Update(kMostBytes).ok());
  EXPECT_GT(points_.generation(), before);
  const auto all = points_.After(-1, 100);
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(ValueOf(all[4], "raw_reward_mean"), 0.5);
  EXPECT_EQ(ValueOf(all[5], "raw_reward_mean"), 0.75);
}

TEST_F(RunPointsTest, ALongRunKeepsEveryFewSteps) {
  const int steps = static_cast<int>(RunPoints::kMostPoints) + 100;
  Write(1, steps);
  // One update reads a part of a large file.
  for (int i = 0; i < 100 && (points_.newest().empty() || points_.newest().back().step < steps);
       ++i)
    ASSERT_TRUE(points_.Update(kMostBytes).ok());
  const auto all = points_.After(-1, 100000);
  EXPECT_EQ(all.size(), RunPoints::kMostPoints / 2 + 50);
  EXPECT_EQ(StepOf(all[0]), 2);
  EXPECT_EQ(StepOf(all[1]), 4);
  EXPECT_EQ(StepOf(all.back()), steps);
}

TEST(PageLogTest, TheNewestWarningsComeFirstAndAlarmsAreLeftOut) {
  const TempDir dir;
  const std::string at = "2026-01-01T00:00:0";
  ASSERT_TRUE(AppendToFile(JoinPath(dir.path(), "learner.log"),
                           at + "1.000Z W learner/0 slow disk ms=7\n" + at +
                               "2.000Z I learner/0 fine\n" + at +
                               "3.000Z W learner/0 alarm alarm=collapse\nTraceback\n")
                  .ok());
  ASSERT_TRUE(AppendToFile(JoinPath(dir.path(), "worker-w0.log"),
                           at + "4.000Z E rollout_worker/w0 <script>gone</script>\n")
                  .ok());
  const auto lines = NewestWarnings(dir.path(), 10);
  ASSERT_EQ(lines.size(), 2U) << lines.dump();
  EXPECT_EQ(lines[0]["level"], "error");
  EXPECT_EQ(lines[0]["text"], "<script>gone</script>");
  EXPECT_EQ(lines[1]["who"], "learner/0");
  EXPECT_EQ(lines[1]["text"], "slow disk ms=7");
  EXPECT_EQ(NewestWarnings(dir.path(), 1).size(), 1U);
  EXPECT_TRUE(NewestWarnings(dir.path() + "/none", 9).empty());
}

}  // namespace
}  // namespace buttress
