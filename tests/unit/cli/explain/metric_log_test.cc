#include "cli/explain/metric_log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MetricLogTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    EXPECT_TRUE(WriteFileAtomic(path.string(), text).ok());
    return path.string();
  }

  // The rates of a log whose text is `text`.
  std::vector<double> Rates(const std::string& text) const {
    const auto log = ReadMetricLog(Write("a.log", text));
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    std::vector<double> rates;
    if (!log.ok() || !*log) return rates;
    for (const CollapsePoint& point : (**log).points) rates.push_back(point.acr.value_or(-1));
    return rates;
  }

  TempDir folder_;
};

TEST_F(MetricLogTest, EachTrainerHasItsNames) {
  EXPECT_THAT(Rates("{\"step\": 1, \"frac_reward_zero_std\": 0.25}\n"), ElementsAre(0.25));
  EXPECT_THAT(Rates("{\"train/frac_reward_zero_std\": 0.25, \"_step\": 1}\n"), ElementsAre(0.25));
  EXPECT_THAT(Rates("{\"eval_frac_reward_zero_std\": 0.25}\n"), ElementsAre());
  EXPECT_THAT(Rates("{'loss': 0.1, 'frac_reward_zero_std': '0.5', 'epoch': 0.1}\n"),
              ElementsAre(0.5));
  EXPECT_THAT(Rates("Global step 3: {'reward': 0.5, 'dynamic_filtering_pass_rate': 75.0}\n"),
              ElementsAre(0.25));
  EXPECT_THAT(Rates("{\"step\": 2, \"data\": {\"training/n_groups\": 8, "
                    "\"training/n_zero_adv_groups\": 2}}\n"),
              ElementsAre(0.25));
  EXPECT_THAT(Rates("(TaskRunner pid=7) step:2 - training/n_groups:8 - actor/lr:1e-06 - "
                    "training/n_zero_adv_groups:np.float64(6.0)\n"),
              ElementsAre(0.75));
  EXPECT_THAT(
      Rates("{\"env/all/by_group/frac_mixed\": 0.3, \"env/all/by_group/frac_all_bad\": 0.6, "
            "\"env/all/by_group/frac_all_good\": 0.1}\n"),
      ElementsAre(testing::DoubleEq(0.7)));
  EXPECT_THAT(Rates("{\"baseline_reward/pct_0\": 20.0, \"baseline_reward/pct_1\": 30.0, "
                    "\"baseline_reward/pct_mixed\": 50.0}\n"),
              ElementsAre(0.5));
  EXPECT_THAT(Rates("{\"solved_none\": 0.5, \"solved_all\": 0.25}\n"), ElementsAre(0.75));
}

TEST_F(MetricLogTest, TheStateOfATrainerIsFoundInItsLastCheckpoint) {
  const std::string state =
      "{\n  \"best_metric\": null,\n  \"log_history\": [\n    {\"step\": 10, \"reward\": 0.5,\n"
      "     \"frac_reward_zero_std\": 0.25, \"completions/mean_length\": 80},\n"
      "    {\"step\": 20, \"reward\": NaN, \"frac_reward_zero_std\": 0.75},\n"
      "    {\"step\": 20, \"train_runtime\": 5.0}\n  ]\n}\n";
  Write("checkpoint-9/trainer_state.json", "{\"log_history\": []}");
  const std::string newest = Write("checkpoint-20/trainer_state.json", state);
  const auto log = ReadMetricLog(folder_.path());
  ASSERT_TRUE(log.ok() && *log) << log.status().ToString();
  EXPECT_EQ((**log).path, newest);
  const std::string text = MetricLogText(**log);
  EXPECT_THAT(text, HasSubstr("log of TRL, 2 steps\ncollapse is read from frac_reward_zero_std\n"));
  EXPECT_THAT(text, HasSubstr("ACR 0.500 on average, 0.750 at the end"));
  EXPECT_THAT(
      text,
      HasSubstr("     10 - 10       0.25            -          -         -     0.500        80\n"
                "     20 - 20       0.75"));
  const auto json = nlohmann::json::parse(MetricLogJson(**log));
  EXPECT_EQ(json["summary"]["acr"], 0.5);
  EXPECT_EQ(json["summary"]["steps"][1]["step"], 20);
  EXPECT_EQ(json["summary"]["steps"][1]["reward"], nullptr);
}

TEST_F(MetricLogTest, NumbersOfGroupsWithoutTheirWholeAreNoRate) {
  const std::string path = Write(
      "verl.jsonl", "{\"step\": 1, \"data\": {\"training/filter_groups/evicted_samples\": 12}}\n");
  const auto log = ReadMetricLog(path);
  ASSERT_TRUE(log.ok() && *log);
  EXPECT_EQ((**log).trainer, "verl");
  EXPECT_EQ((**log).points[0].dropped, 12);
  EXPECT_FALSE((**log).points[0].acr);
  EXPECT_THAT(MetricLogText(**log), HasSubstr("so it has no ACR"));
}

TEST_F(MetricLogTest, ALogWithoutARateSaysWhatToReadInstead) {
  const std::string verl =
      "(TaskRunner pid=7) step:34 - actor/grad_norm:0.13 - critic/rewards/mean:-0.02 - "
      "response_length/clip_ratio:0.21\n";
  const auto log = ReadMetricLog(Write("verl.log", "starting\n" + verl + verl));
  EXPECT_THAT(log.status().message(),
              AllOf(HasSubstr("verl.log is a log of 2 steps without a rate of collapse"),
                    HasSubstr("trainer.rollout_data_dir")));
  const auto state = ReadMetricLog(
      Write("trainer_state.json", R"({"log_history": [{"step": 1, "reward": 0.5}]})"));
  EXPECT_THAT(state.status().message(), HasSubstr("a log of 1 steps without a rate"));
  // Rows of completions have rewards too, and errors of their own.
  const auto rows =
      ReadMetricLog(Write("rows.jsonl", "{\"prompt\": \"a\", \"reward\": 1}\n{\"pro"));
  EXPECT_TRUE(rows.ok() && !*rows);
}

TEST_F(MetricLogTest, OtherFilesAreNoLogs) {
  const auto log = ReadMetricLog(Write("a.txt", "step: 3 - done\n{'a'\n{\"b\": [1]}\n\n'\n"));
  ASSERT_TRUE(log.ok());
  EXPECT_FALSE(*log);
}

}  // namespace
}  // namespace buttress
