#include "lib/page/page_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/os/file.h"
#include "lib/measure/steps_file.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

TEST(PageDataTest, ARunThatWaitsForDiskSpaceIsPausedAndSaysWhy) {
  const TempDir dir;
  RunConfig config;
  config.local.out = dir.path();
  const ByteTokenizer tokenizer;
  v1::GetRunStatusResponse run;
  run.set_run_state(v1::RUN_STATE_RUNNING);
  PageData data(config, &tokenizer, [&run] { return run; });
  EXPECT_EQ(nlohmann::json::parse(data.Get(-1, 0))["status"]["state"], "running");

  run.set_paused("disk full");
  PageData later(config, &tokenizer, [&run] { return run; });
  const auto status = nlohmann::json::parse(later.Get(-1, 0))["status"];
  EXPECT_EQ(status["state"], "paused");
  EXPECT_EQ(status["paused"], "disk full");
}

TEST(PageDataTest, AnAlarmHasTheWordsOfTheConsole) {
  const TempDir dir;
  RunConfig config;
  config.local.out = dir.path();
  StepMeasurements step;
  step.step = 3;
  step.distinct_share = 1;
  step.alarms = {Alarm::kCollapse};
  ASSERT_TRUE(AppendStep(JoinPath(dir.path(), "steps.jsonl"), step).ok());
  const ByteTokenizer tokenizer;
  PageData data(config, &tokenizer, [] { return v1::GetRunStatusResponse(); });
  const auto alarms = nlohmann::json::parse(data.Get(-1, 0))["alarms"];
  ASSERT_EQ(alarms.size(), 1U);
  EXPECT_EQ(alarms[0]["name"], "collapse");
  EXPECT_EQ(alarms[0]["step"], 3);
  EXPECT_EQ(alarms[0]["meaning"], WordsOf(Alarm::kCollapse).meaning);
  EXPECT_EQ(alarms[0]["advice"], WordsOf(Alarm::kCollapse).advice);
}

TEST(PageDataTest, SaysWhetherTheRunLearned) {
  const TempDir dir;
  for (int n = 1; n <= 20; ++n) {
    StepMeasurements step;
    step.step = n;
    step.accuracy = step.drawn_raw_reward_mean = n <= 10 ? 0.1 : 0.9;
    ASSERT_TRUE(AppendStep(JoinPath(dir.path(), "steps.jsonl"), step).ok());
  }
  const auto evaluated = [&dir](const std::string& when, const std::string& rows) {
    const std::string path = JoinPath(dir.path(), "eval_" + when + ".json");
    return WriteFileAtomic(path, R"({"accuracy": 0, "prompts": 2, "by_row": )" + rows + "}").ok();
  };
  ASSERT_TRUE(evaluated("before", "[0, 1]"));
  ASSERT_TRUE(evaluated("after", "[1, 1]"));
  RunConfig config;
  config.local.out = dir.path();
  const ByteTokenizer tokenizer;
  PageData data(config, &tokenizer, [] { return v1::GetRunStatusResponse(); });
  const auto learned = nlohmann::json::parse(data.Get(-1, 0))["learned"];
  EXPECT_EQ(learned["accuracy"]["verdict"], "rose");
  EXPECT_EQ(learned["held_out"]["before"], 0.5);
  EXPECT_EQ(learned["held_out"]["after"], 1);
  EXPECT_EQ(learned["held_out"]["verdict"], "within chance");
}

}  // namespace
}  // namespace buttress
