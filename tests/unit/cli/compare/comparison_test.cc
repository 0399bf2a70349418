#include "cli/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/ledger.h"
#include "lib/measure/steps_file.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a made run has: `steps` steps whose accuracy rises from 0.2 to `accuracy`, one group that is
// all wrong, and a held-out prompt for each digit of `right`, 1 for one that training got right.
struct MadeRun {
  std::int64_t seed = 1;
  double lr = 1e-3;
  std::string right = "1010";
  double accuracy = 0.5;
  int steps = 40;
};

class ComparisonTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& name, const MadeRun& run) {
    const std::string folder = JoinPath(dir_.path(), name);
    EXPECT_TRUE(MakeFolders(folder).ok());
    RunConfig config;
    config.run.model.path = "/model";
    config.run.data.prompts = "/train.jsonl";
    config.run.data.held_out = "/held_out.jsonl";
    config.run.optim.lr = run.lr;
    config.run.seed = run.seed;
    config.local.out = folder;
    EXPECT_TRUE(WriteFileAtomic(StoredConfigPath(folder), PrintRunConfig(config)).ok());
    WriteSteps(folder, run);
    WriteLedger(folder);
    WriteAccuracy(JoinPath(folder, "eval_before.json"), std::string(run.right.size(), '0'));
    WriteAccuracy(JoinPath(folder, "eval_after.json"), run.right);
    return folder;
  }

  static void WriteSteps(const std::string& folder, const MadeRun& run) {
    for (int n = 1; n <= run.steps; ++n) {
      StepMeasurements step;
      step.step = n;
      step.drawn_tokens = 100;
      step.trained_tokens = 60;
      step.seconds_step = 0.5;
      step.entropy = 1;
      step.acr = 0.25;
      step.accuracy = n <= run.steps / 2 ? 0.2 : run.accuracy;
      ASSERT_TRUE(AppendStep(JoinPath(folder, "steps.jsonl"), step).ok());
    }
  }

  static void WriteLedger(const std::string& folder) {
    const auto ledger = *Ledger::Open(JoinPath(folder, "ledger.db"));
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->next_group_id = 2;
    GroupRow& group = changes.groups.emplace_back();
    group.group_id = 1;
    group.prompt = {"p", "s", 0, 1, 1};
    group.state = GroupState::kSettled;
    group.step = 1;
    PlanRow& plan = changes.plans.emplace_back();
    plan.step = 1;
    plan.group_ids = {1};
    changes.accepted.push_back(MakeAccepted(MakeHead(1, {Outcome::kWrong, Outcome::kWrong})));
    const Status written = ledger->Write(changes);
    ASSERT_TRUE(written.ok()) << written.ToString();
  }

  static void WriteAccuracy(const std::string& path, const std::string& right) {
    nlohmann::json by_row = nlohmann::json::array();
    for (const char digit : right) by_row.push_back(digit == '1' ? 1.0 : 0.0);
    const auto correct = static_cast<double>(std::ranges::count(right, '1'));
    const nlohmann::json json = {{"accuracy", correct / static_cast<double>(right.size())},
                                 {"prompts", right.size()},
                                 {"by_row", by_row}};
    ASSERT_TRUE(WriteFileAtomic(path, json.dump()).ok());
  }

  static Comparison Compared(const std::vector<std::string>& folders) {
    auto comparison = CompareRuns(folders);
    EXPECT_TRUE(comparison.ok()) << comparison.status().ToString();
    return comparison.ok() ? *std::move(comparison) : Comparison();
  }

  TempDir dir_;
};

TEST_F(ComparisonTest, TwoRunsDifferInASettingAndInHeldOutPromptsOneByOne) {
  const std::string right(60, '1'), half = std::string(30, '1') + std::string(30, '0');
  const Comparison found = Compared(
      {Make("low", {.right = half}), Make("high", {.lr = 5e-3, .right = right, .accuracy = 0.9})});
  ASSERT_EQ(found.runs.size(), 2U);
  EXPECT_EQ(found.runs[0].label, "low");
  EXPECT_FALSE(found.runs[0].finished);
  EXPECT_EQ(found.runs[0].tokens, 4000);
  EXPECT_EQ(found.runs[0].trained_tokens, 2400);
  EXPECT_EQ(found.runs[0].seconds, 20);
  EXPECT_NEAR(found.runs[1].learned.accuracy.last, 0.9, 1e-9);
  ASSERT_EQ(found.settings.size(), 1U);
  EXPECT_EQ(found.settings[0].key, "run.optim.lr");
  EXPECT_THAT(found.settings[0].values, ElementsAre("0.001", "0.005"));
  ASSERT_TRUE(found.held_out);
  EXPECT_NEAR(found.held_out->change.difference, 0.5, 1e-9);
  EXPECT_GT(found.held_out->change.low, 0.3);
  EXPECT_EQ(found.held_out->only_first, 0);
  EXPECT_EQ(found.held_out->only_second, 30);
  EXPECT_THAT(found.seeds, IsEmpty());
  EXPECT_THAT(ComparisonText(found),
              AllOf(HasSubstr("run.optim.lr: 0.001 | 0.005"), HasSubstr("high is better"),
                    HasSubstr("0.0 to 50.0"), HasSubstr("20.0 to 90.0"), HasSubstr("4.0 k")));
  const auto json = ComparisonJson(found);
  EXPECT_EQ(json["runs"][1]["learned"]["held_out"]["after"], 1.0);
  EXPECT_EQ(json["runs"][0]["groups"]["all_wrong"], 1);
  EXPECT_EQ(json["held_out"]["only_second"], 30);
  const std::string html = ComparisonHtml(found);
  EXPECT_THAT(html, AllOf(HasSubstr("high is better"), HasSubstr("run.optim.lr")));
  // Both runs have a line in each plot of what was measured.
  EXPECT_THAT(html, AllOf(HasSubstr("accuracy</text>"), HasSubstr("stroke=\"#0969da\""),
                          HasSubstr("stroke=\"#cf222e\"")));
}

TEST_F(ComparisonTest, RunsOfSeveralSeedsAreAveragedAndTheirSettingsCompared) {
  std::vector<std::string> folders;
  const char* rights[] = {"1110", "1100", "1000"};
  for (std::int64_t seed = 1; seed <= 3; ++seed)
    folders.push_back(
        Make("a-seeds/seed-" + std::to_string(seed), {.seed = seed, .right = rights[seed - 1]}));
  const Comparison one = Compared(folders);
  ASSERT_EQ(one.seeds.size(), 1U);
  EXPECT_EQ(one.seeds[0].label, "a-seeds");
  EXPECT_EQ(one.runs[2].label, "seed-3");
  EXPECT_THAT(one.seed_differences, IsEmpty());
  const RunsMean held_out = one.seeds[0].endpoints[2];
  EXPECT_EQ(Endpoints()[2].name, "held_out_after");
  EXPECT_NEAR(held_out.mean, 0.5, 1e-9);
  EXPECT_NEAR(held_out.high, 0.5 + 4.303 * 0.25 / std::sqrt(3.0), 1e-6) << "t of two degrees";
  EXPECT_THAT(ComparisonText(one), HasSubstr("a-seeds: mean over 3 seeds"));

  for (std::int64_t seed = 1; seed <= 2; ++seed)
    folders.push_back(
        Make("b-seeds/seed-" + std::to_string(seed), {.seed = seed, .lr = 5e-3, .right = "1111"}));
  const Comparison two = Compared(folders);
  ASSERT_EQ(two.seeds.size(), 2U);
  EXPECT_EQ(two.runs[4].label, "b-seeds/seed-2");
  ASSERT_EQ(two.seed_differences.size(), Endpoints().size());
  EXPECT_NEAR(two.seed_differences[2].mean, 0.5, 1e-9);
  EXPECT_THAT(ComparisonText(two), HasSubstr("b-seeds minus a-seeds"));
  EXPECT_EQ(ComparisonJson(two)["seeds"][1]["of"].size(), 2U);
  EXPECT_THAT(ComparisonHtml(two), HasSubstr("Over seeds"));
}

TEST_F(ComparisonTest, PromptsOfOtherContentAreNotPaired) {
  const std::string a = Make("a", {}), b = Make("b", {.seed = 2});
  const auto record = [](const std::string& folder, const std::string& digest) {
    const nlohmann::json json = {
        {"starts", {{{"data", {{{"path", "/held_out.jsonl"}, {"sha256", digest}}}}}}}};
    ASSERT_TRUE(WriteFileAtomic(JoinPath(folder, "versions.json"), json.dump()).ok());
  };
  record(a, "aa");
  EXPECT_TRUE(Compared({a, b}).held_out) << "the same path, and one digest is not known";
  record(b, "bb");
  EXPECT_FALSE(Compared({a, b}).held_out);
  EXPECT_THAT(ComparisonText(Compared({a, b})), HasSubstr("held-out prompts differ"));
  std::filesystem::remove(JoinPath(b, "eval_after.json"));
  EXPECT_THAT(ComparisonText(Compared({a, b})), HasSubstr("no held-out accuracy after"));
}

TEST_F(ComparisonTest, WhatCannotBeComparedIsNamed) {
  const std::string a = Make("a", {});
  EXPECT_EQ(CompareRuns({a}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(CompareRuns({a, a + "/"}).status().message(), HasSubstr("named twice"));
  EXPECT_THAT(CompareRuns({a, dir_.path() + "/none"}).status().message(),
              HasSubstr("none: expected the folder of a run"));
}

TEST(RunsMeanTest, AnIntervalNeedsTwoRuns) {
  const double values[] = {0.25, std::nan("")};
  const RunsMean one = MeanOverRuns(values);
  EXPECT_EQ(one.mean, 0.25);
  EXPECT_EQ(one.runs, 1U);
  EXPECT_TRUE(std::isnan(one.low));
  EXPECT_EQ(EndpointText(Endpoints()[2], one, false), "25.0 %");
  EXPECT_EQ(EndpointText(Endpoints()[0], MeanOverRuns({}), false), "-");
}

TEST(RunsMeanTest, WelchsIntervalOfADifference) {
  // Means 2 and 5, variances of the means 1/3 and 4/3, so nu = (5/3)^2 / (1/18 + 8/9).
  const double a[] = {1, 2, 3}, b[] = {3, 5, 7};
  const RunsMean difference = DifferenceOfRuns(a, b);
  EXPECT_EQ(difference.mean, 3);
  const double freedom = 25.0 / 9 / (1.0 / 18 + 8.0 / 9);
  EXPECT_NEAR(difference.high - 3, StudentT95(freedom) * std::sqrt(5.0 / 3), 1e-9);
}

}  // namespace
}  // namespace buttress
