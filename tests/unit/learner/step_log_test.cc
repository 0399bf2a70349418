#include "learner/step_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"

namespace buttress {
namespace {

class StepLogTest : public testing::Test {
 protected:
  void SetUp() override {
    path = (std::filesystem::path(testing::TempDir()) / "step_log_test.jsonl").string();
    std::filesystem::remove(path);
  }

  std::string Text() const {
    const auto text = ReadFile(path);
    return text.ok() ? *text : text.status().ToString();
  }

  std::string path;
};

TEST_F(StepLogTest, AResumeCutsLaterStepsAndATornLine) {
  ASSERT_TRUE(WriteFileAtomic(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"ste").ok());
  ASSERT_TRUE(StepLog(path).KeepUntil(2).ok());
  EXPECT_EQ(Text(), "{\"step\":1}\n{\"step\":2}\n");
  ASSERT_TRUE(StepLog(path).Append("{\"step\":3}").ok());
  EXPECT_EQ(Text(), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
}

TEST_F(StepLogTest, AFreshRunHasNoFileYet) { EXPECT_TRUE(StepLog(path).KeepUntil(0).ok()); }

TEST_F(StepLogTest, AFileOfSomethingElseIsRefused) {
  ASSERT_TRUE(WriteFileAtomic(path, "hello\n").ok());
  EXPECT_EQ(StepLog(path).KeepUntil(0).code(), StatusCode::kDataLoss);
}

TEST_F(StepLogTest, RatesAreOverComparableGroupsAndInfinityIsNull) {
  StepReport report;
  report.step = 9;
  report.batch.collapse = {8, 2, 1,
                           0, 3, 2};  // groups, all correct, all wrong, other, mixed, unscorable
  report.batch.generated_tokens = 300;
  report.grad_norm = std::numeric_limits<double>::infinity();
  StepTimes times;
  times.step_seconds = 2;
  const auto json = nlohmann::json::parse(StepToJson(report, times, {}));
  EXPECT_EQ(json["step"], 9);
  EXPECT_DOUBLE_EQ(json["acr"], 0.5);  // 3 / 6
  EXPECT_DOUBLE_EQ(json["acr_all_correct"], 2.0 / 6);
  EXPECT_DOUBLE_EQ(json["tokens_per_second"], 150);
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["importance"]["ess"], 0);
}

TEST_F(StepLogTest, AlarmsAndWhatTheyLookAtStandInTheLineAndAreReadBack) {
  StepReport report;
  report.step = 1;
  report.entropy = 0.25;
  report.loss.kl_k3 = 0.5;
  report.responses = {.responses = 8, .distinct = 2, .formatted = 6};
  report.batch.gradient = {.all = 4, .virtual_samples = 1};
  const Alarm begun[] = {Alarm::kKlDrift};
  const std::string line = StepToJson(report, {}, begun);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["alarms"], nlohmann::json({"kl_drift"}));
  EXPECT_DOUBLE_EQ(json["distinct_share"], 0.25);
  EXPECT_DOUBLE_EQ(json["format_share"], 0.75);
  EXPECT_DOUBLE_EQ(json["collapsed_gradient"]["share"], 0.25);
  EXPECT_DOUBLE_EQ(json["collapsed_gradient"]["virtual"], 0.25);

  EXPECT_TRUE(StepLog(path).Readings()->empty());
  ASSERT_TRUE(StepLog(path).Append(line).ok());
  ASSERT_TRUE(StepLog(path).Append("{\"step\":2}").ok());
  const auto readings = StepLog(path).Readings();
  ASSERT_TRUE(readings.ok());
  ASSERT_EQ(readings->size(), 2u);
  EXPECT_EQ((*readings)[0].entropy, 0.25);
  EXPECT_EQ((*readings)[0].sampler_kl, 0.5);
  EXPECT_EQ((*readings)[0].distinct_share, 0.25);
  EXPECT_TRUE(std::isnan((*readings)[1].entropy));
}

}  // namespace
}  // namespace buttress
