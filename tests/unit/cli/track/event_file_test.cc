#include "cli/track/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "lib/base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tensorboard_events.h"

namespace buttress {
namespace {

StepMeasurements EndedStep(double step, double reward) {
  StepMeasurements ended;
  ended.step = step;
  ended.time_unix = 1000 + step;
  ended.reward_mean = reward;
  ended.drawn_per_kept = StepMeasurements::kNotMeasured;
  return ended;
}

// The check value of CRC-32C in RFC 3720, appendix B.4: 32 bytes of zeros give 0x8a9136aa.
TEST(EventFileTest, TheCheckIsTheMaskedCastagnoliCrc) {
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\0')), std::rotr(0x8a9136aau, 15) + 0xa282ead8u);
  EXPECT_EQ(MaskedCrc32c("123456789"), std::rotr(0xe3069283u, 15) + 0xa282ead8u);
}

TEST(EventFileTest, WritesWhatWasMeasured) {
  const TempDir folder;
  const auto file = EventFile::Create(folder.path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  StepMeasurements first = EndedStep(1, 0.25);
  first.importance_ess = 0.5;
  SourceMeasurements& source = first.sources.emplace_back();
  source.source = "gsm8k";
  source.collapse = {.groups = 4, .all_correct = 1, .mixed = 3};
  ASSERT_TRUE((*file)->Add(std::vector{first, EndedStep(2, 0.75)}).ok());

  const auto events = EventsIn((*file)->Place());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 1);
  EXPECT_EQ(events[1].wall_time(), 1001);
  EXPECT_EQ(ValueOf(events[1], "reward_mean"), 0.25f);
  EXPECT_EQ(ValueOf(events[1], "importance/ess"), 0.5f);
  EXPECT_EQ(ValueOf(events[1], "sources/gsm8k/acr"), 0.25f);
  EXPECT_EQ(ValueOf(events[1], "accuracy"), 0.0f) << "0 is a value";
  EXPECT_EQ(ValueOf(events[1], "drawn/per_kept"), std::nullopt) << "not measured";
  EXPECT_EQ(ValueOf(events[1], "step"), std::nullopt);
  EXPECT_EQ(ValueOf(events[2], "reward_mean"), 0.75f);
}

TEST(EventFileTest, AnEvaluationIsShownAtTheStepOfItsWeights) {
  const TempDir folder;
  const auto file = EventFile::Create(folder.path());
  StepMeasurements later = EndedStep(7, 0.25);
  later.eval_step = 4;
  later.eval_accuracy = 0.75;
  ASSERT_TRUE((*file)->Add(std::vector{later}).ok());
  const auto events = EventsIn((*file)->Place());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].step(), 4);
  EXPECT_EQ(ValueOf(events[1], "eval/accuracy"), 0.75f);
  EXPECT_EQ(events[2].step(), 7);
  EXPECT_EQ(ValueOf(events[2], "reward_mean"), 0.25f);
  EXPECT_EQ(ValueOf(events[2], "eval/accuracy"), std::nullopt);
}

TEST(EventFileTest, AnEvaluationAfterTheLastStepIsShownToo) {
  const TempDir folder;
  const auto file = EventFile::Create(folder.path());
  EvalRow row;
  row.step = 2;
  row.time_unix = 5000;
  row.accuracy = 0.75;
  row.completions = 8;
  row.truncated = 2;
  ASSERT_TRUE((*file)->Add(std::vector{EndedStep(2, 0)}).ok());
  ASSERT_TRUE((*file)->AddEvaluations(std::vector{row}).ok());
  const auto events = EventsIn((*file)->Place());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].step(), 2);
  EXPECT_EQ(events[2].wall_time(), 5000);
  EXPECT_EQ(ValueOf(events[2], "eval/accuracy"), 0.75f);
  EXPECT_EQ(ValueOf(events[2], "eval/truncated_share"), 0.25f);
  EXPECT_EQ(ValueOf(events[2], "eval/reward_mean"), std::nullopt) << "not measured";
}

TEST(EventFileTest, AStepThatIsTrainedAgainTakesThePlaceOfTheLaterOnes) {
  const TempDir folder;
  const auto file = EventFile::Create(folder.path());
  ASSERT_TRUE((*file)->Add(std::vector{EndedStep(1, 0), EndedStep(2, 0)}).ok());
  ASSERT_TRUE((*file)->Add(std::vector{EndedStep(2, 1), EndedStep(3, 1)}).ok());
  const auto events = EventsIn((*file)->Place());
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[3].step(), 2);
  EXPECT_EQ(events[3].session_log().status(), v1::TensorBoardSession::START);
  EXPECT_EQ(ValueOf(events[4], "reward_mean"), 1.0f);
}

TEST(EventFileTest, TheSameStepsMakeTheSameFile) {
  const TempDir folder;
  const auto first = EventFile::Create(folder.path());
  ASSERT_TRUE((*first)->Add(std::vector{EndedStep(1, 0), EndedStep(2, 0)}).ok());
  const std::string bytes = *ReadFile((*first)->Place());
  const auto second = EventFile::Create(folder.path());
  ASSERT_TRUE((*second)->Add(std::vector{EndedStep(1, 0)}).ok());
  ASSERT_TRUE((*second)->Add(std::vector{EndedStep(2, 0)}).ok());
  EXPECT_EQ(*ReadFile((*second)->Place()), bytes);
}

TEST(EventFileTest, AFolderThatCannotBeWrittenIsNamed) {
  const auto file = EventFile::Create("/proc/nowhere");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), testing::HasSubstr("/proc/nowhere"));
}

}  // namespace
}  // namespace buttress
