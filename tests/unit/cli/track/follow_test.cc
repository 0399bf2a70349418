#include "cli/track/follow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

std::vector<std::int64_t> StepsOfLast(const std::string& out) {
  std::vector<std::int64_t> steps;
  const auto rows = LastEvaluations(out);
  EXPECT_TRUE(rows.ok()) << rows.status().ToString();
  for (const EvalRow& row : *rows) steps.push_back(row.step);
  return steps;
}

TEST(LastEvaluationsTest, AreThoseThatNoStepHolds) {
  const TempDir out;
  EXPECT_THAT(StepsOfLast(out.path()), testing::IsEmpty());
  for (const std::int64_t step : {2, 4, 6}) {
    EvalRow row;
    row.step = step;
    ASSERT_TRUE(AddEval(out.path(), row).ok());
  }
  EXPECT_THAT(StepsOfLast(out.path()), testing::ElementsAre(2, 4, 6));
  for (int n = 1; n <= 6; ++n) {
    StepMeasurements step;
    step.step = n;
    if (n == 5) step.eval_step = 2;
    if (n == 6) step.eval_step = 4;
    ASSERT_TRUE(AppendStep(JoinPath(out.path(), "steps.jsonl"), step).ok());
  }
  EXPECT_THAT(StepsOfLast(out.path()), testing::ElementsAre(6));
}

}  // namespace
}  // namespace buttress
