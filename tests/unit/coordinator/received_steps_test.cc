#include <gtest/gtest.h>

#include <filesystem>

#include "coordinator/run_reports.h"
#include "lib/base/os/file.h"
#include "lib/config/run_folder.h"
#include "lib/measure/steps_file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

std::string LineOf(double step) {
  StepMeasurements measured;
  measured.step = step;
  return StepToJson(measured);
}

TEST(ReceivedStepsTest, EachStepIsKeptOnceInTheOrderOfTheLearner) {
  const TempDir out;
  ReceivedSteps steps(out.path());
  for (const double step : {1, 2, 2, 3, 2}) steps.Take(LineOf(step));
  for (const char* other : {"", "{}", "not a step", "{\"step\": 7}\n{\"step\": 8}"})
    steps.Take(other);
  const auto kept = ReadSteps(ReceivedStepsPath(out.path()));
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  std::vector<double> numbers;
  for (const StepMeasurements& step : *kept) numbers.push_back(step.step);
  EXPECT_EQ(numbers, (std::vector<double>{1, 2, 3, 2}));
}

TEST(ReceivedStepsTest, WhereTheLearnersFileIsNothingIsKept) {
  const TempDir out;
  ASSERT_TRUE(WriteFileAtomic(JoinPath(out.path(), "steps.jsonl"), "").ok());
  ReceivedSteps(out.path()).Take(LineOf(1));
  EXPECT_FALSE(std::filesystem::exists(ReceivedStepsPath(out.path())));
  ReceivedSteps("").Take(LineOf(1));
}

}  // namespace
}  // namespace buttress
