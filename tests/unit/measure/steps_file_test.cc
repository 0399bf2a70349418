#include "lib/measure/steps_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

class StepsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path = (std::filesystem::path(testing::TempDir()) / "steps_file_test.jsonl").string();
    std::filesystem::remove(path);
  }

  std::string Text() const {
    const auto text = ReadFile(path);
    return text.ok() ? *text : text.status().ToString();
  }

  std::string path;
};

TEST_F(StepsFileTest, TruncateStepsCutsLaterStepsAndAnUnfinishedLine) {
  ASSERT_TRUE(WriteFileAtomic(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"ste").ok());
  ASSERT_TRUE(TruncateSteps(path, 2).ok());
  EXPECT_EQ(Text(), "{\"step\":1}\n{\"step\":2}\n");
  StepMeasurements third;
  third.step = 3;
  ASSERT_TRUE(AppendStep(path, third).ok());
  const auto steps = ReadSteps(path);
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 3u);
  EXPECT_EQ(steps->back().step, 3);
}

TEST_F(StepsFileTest, SourcesComeBackWithTheirCounts) {
  StepMeasurements step;
  step.step = 1;
  step.sources.emplace_back().source = "empty";
  SourceMeasurements& source = step.sources.emplace_back();
  source.source = "math \"2\"";
  source.collapse = {.groups = 4, .all_correct = 1, .mixed = 2, .unscorable = 1};
  source.scorable = 12;
  source.raw_reward = 7.5;
  source.correct = 7;
  source.judged = 12;
  source.virtual_groups = 1;
  source.gate_rate = 0.25;
  source.gate_threshold = 0.5;
  source.gate_open = 0;
  const std::string line = StepToJson(step);
  const auto json = nlohmann::json::parse(line);
  EXPECT_DOUBLE_EQ(json["sources"]["math \"2\""]["acr"].get<double>(), 1.0 / 3);
  EXPECT_EQ(json["sources"]["math \"2\""]["gate_open"], false);
  EXPECT_TRUE(json["sources"]["empty"]["acr"].is_null());
  const auto read = ParseStep(line);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(StepToJson(*read), line);
  const auto wrong = ParseStep(R"({"step":1,"sources":{"a":{"groups":"many"}}})");
  EXPECT_EQ(wrong.status().message(), "a value of the source 'a' is not a number");
}

TEST_F(StepsFileTest, ComponentsComeBackByTheirNames) {
  StepMeasurements step;
  step.step = 1;
  step.components = {{"answer", 2, 8}, {"format", 6, 8}};
  const std::string line = StepToJson(step);
  EXPECT_THAT(line, testing::HasSubstr(R"("components":{"answer":0.25,"format":0.75})"));
  const auto read = ParseStep(line);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(StepToJson(*read), line);
  EXPECT_FALSE(ParseStep(R"({"step":1,"components":{"answer":"many"}})").ok());
}

TEST_F(StepsFileTest, ANewRunHasNoFileAndNoSteps) {
  EXPECT_TRUE(TruncateSteps(path, 0).ok());
  EXPECT_TRUE(ReadSteps(path)->empty());
}

TEST_F(StepsFileTest, AFileWithOtherContentIsRefused) {
  ASSERT_TRUE(WriteFileAtomic(path, "hello\n").ok());
  EXPECT_EQ(TruncateSteps(path, 0).code(), StatusCode::kDataLoss);
  const auto steps = ReadSteps(path);
  EXPECT_EQ(steps.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(steps.status().message().find(path + ":1"), std::string::npos);
}

TEST_F(StepsFileTest, ATailReturnsEachStepOnceWhenItsLineIsComplete) {
  const auto steps_of = [](StepsTail& tail) {
    std::vector<double> numbers;
    const std::vector<StepMeasurements> steps = *tail.Next();
    for (const StepMeasurements& step : steps) numbers.push_back(step.step);
    return numbers;
  };
  using Steps = std::vector<double>;
  StepsTail tail(path);
  EXPECT_EQ(steps_of(tail), Steps());
  ASSERT_TRUE(AppendToFile(path, "{\"step\":1}\n{\"step\":2}\n{\"st").ok());
  EXPECT_EQ(steps_of(tail), (Steps{1, 2}));
  EXPECT_EQ(steps_of(tail), Steps());
  ASSERT_TRUE(AppendToFile(path, "ep\":3}\n").ok());
  EXPECT_EQ(steps_of(tail), Steps{3});
  // A learner that starts again cuts the file, which may grow beyond its old end before it is read.
  ASSERT_TRUE(TruncateSteps(path, 1).ok());
  ASSERT_TRUE(AppendToFile(path, "{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n").ok());
  EXPECT_EQ(steps_of(tail), (Steps{1, 2, 3, 4}));
  ASSERT_TRUE(AppendToFile(path, "nonsense\n").ok());
  EXPECT_NE(tail.Next().status().message().find(path + ":5"), std::string::npos);
}

TEST_F(StepsFileTest, AValueThatIsNotANumberIsNamed) {
  const auto step = ParseStep(R"({"step":1,"importance":{"ess":"high"}})");
  EXPECT_EQ(step.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(step.status().message().find("'importance.ess'"), std::string::npos);
}

TEST_F(StepsFileTest, CountsAreIntegersFlagsAreBooleansAndInfinityIsNull) {
  StepMeasurements step;
  step.step = 9;
  step.acr = 0.5;
  step.groups = 8;
  step.age_max = 2;
  step.age_mean = 1;
  step.skipped = 1;
  step.gate_open = 1;
  step.importance_ess = 0.25;
  step.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(StepToJson(step));
  EXPECT_EQ(json["step"].dump(), "9");
  EXPECT_EQ(json["groups"].dump(), "8");
  EXPECT_EQ(json["age_max"].dump(), "2");
  EXPECT_EQ(json["age_mean"].dump(), "1.0");
  EXPECT_EQ(json["skipped"].dump(), "1");
  EXPECT_EQ(json["gate"]["open"].dump(), "true");
  EXPECT_EQ(json["acr"].dump(), "0.5");
  EXPECT_EQ(json["importance"]["ess"].dump(), "0.25");
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_TRUE(json["gate"]["rate"].is_null());
}

TEST_F(StepsFileTest, TheNewestStepsAreReadFromTheEndOfALongFile) {
  EXPECT_TRUE(ReadNewestSteps(path, 3)->empty());
  std::string text;
  for (int step = 1; step <= 3000; ++step)  // more than a megabyte
    text += "{\"step\":" + std::to_string(step) + ",\"pad\":\"" + std::string(500, 'x') + "\"}\n";
  ASSERT_TRUE(WriteFileAtomic(path, text + "{\"step\":3001").ok());
  const auto steps = ReadNewestSteps(path, 3);
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 3U);
  EXPECT_EQ(steps->front().step, 2998);
  EXPECT_EQ(steps->back().step, 3000);
  ASSERT_TRUE(WriteFileAtomic(path, "{\"step\":1}\n").ok());
  EXPECT_EQ(ReadNewestSteps(path, 3)->size(), 1U);
}

TEST_F(StepsFileTest, EveryMeasurementSurvivesTheFile) {
  StepMeasurements step;
  double next = 1;
  for (const Measurement& row : MeasurementTable())
    step.*row.value = row.unit == Unit::kFlag ? 1 : next++;
  step.alarms = {Alarm::kEntropyLow, Alarm::kKlDrift};
  ASSERT_TRUE(AppendStep(path, step).ok());
  ASSERT_TRUE(WriteFileAtomic(path, Text() + "{\"step\":2}\n").ok());
  const auto steps = ReadSteps(path);
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 2u);
  for (const Measurement& row : MeasurementTable())
    EXPECT_EQ((*steps)[0].*row.value, step.*row.value) << row.name;
  EXPECT_EQ((*steps)[0].alarms, step.alarms);
  EXPECT_TRUE(std::isnan((*steps)[1].entropy));  // the line lacks it
}

}  // namespace
}  // namespace buttress
