#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/reference/advantages.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Mixed, all correct, all wrong, constant, one unscorable completion, one scorable completion.
constexpr char kGroups[] = R"({"id": "q1", "rewards": [1, 0, 0, 0]}
{"id": "q2", "rewards": [1, 1, 1, 1], "history": {"correct": 1, "scored": 4}}
{"id": 3, "rewards": [0, 0, 0, 0]}
{"id": "q4", "rewards": [0.5, 0.5, 0.5, 0.5]}
{"id": "q5", "rewards": [1, null, 0]}
{"id": "q6", "rewards": [1, null]}
)";

struct Report {
  std::vector<json> groups;
  json summary;
  std::string text;
};

Report ReportOf(const std::vector<std::string>& overrides, const std::string& groups = kGroups) {
  Report report;
  const auto batch = ParseGroups(groups, "g.jsonl");
  const auto options = ParseAlgorithm(overrides);
  EXPECT_TRUE(batch.ok() && options.ok());
  const auto out = ComputeAdvantages(batch->Input(), *options);
  EXPECT_TRUE(out.ok()) << out.status().message();
  std::istringstream lines(AdvantagesJson(*batch, *out, *options));
  for (std::string line; std::getline(lines, line);) report.groups.push_back(json::parse(line));
  report.summary = report.groups.back()["summary"];
  report.groups.pop_back();
  report.text = AdvantagesText(*batch, *out, *options);
  return report;
}

TEST(AdvantagesReportTest, SaysOfEachGroupWhatBecameOfIt) {
  const Report report = ReportOf({"run.algorithm.advantage=dr_grpo"});
  ASSERT_EQ(report.groups.size(), 6U);
  EXPECT_EQ(report.groups[0], json::parse(
                                  R"({"id": "q1", "advantages": [0.75, -0.25, -0.25, -0.25],
              "collapse": "mixed", "near_collapse": true,
              "virtual": {"injected": false, "weight": 0.0, "samples": 0.0}})"));
  EXPECT_EQ(report.groups[2]["id"], 3);
  EXPECT_EQ(report.groups[2]["collapse"], "all_wrong");
  EXPECT_EQ(report.groups[3]["collapse"], "other_constant");
  EXPECT_EQ(report.groups[4]["advantages"], json::parse("[0.5, 0.0, -0.5]"));
  EXPECT_EQ(report.groups[5]["collapse"], "unscorable");
}

TEST(AdvantagesReportTest, TheSummaryIsTheCollapseSnapshotOfTheBatch) {
  const json summary = ReportOf({}).summary;
  EXPECT_EQ(summary["estimator"], "grpo");
  EXPECT_EQ(summary["groups"], 6);
  EXPECT_EQ(summary["completions"], 21);
  EXPECT_EQ(summary["collapsed"], 3);
  EXPECT_EQ(summary["acr"], 0.6);  // 3 of the 5 that have two scorable completions
  EXPECT_EQ(summary["all_correct"], 1);
  EXPECT_EQ(summary["all_wrong"], 1);
  EXPECT_EQ(summary["other_constant"], 1);
  EXPECT_EQ(summary["mixed"], 2);
  EXPECT_EQ(summary["unscorable"], 1);
  EXPECT_EQ(summary["near_collapse"], 1);
  EXPECT_EQ(summary["variance_acr"], 0.6);
  EXPECT_EQ(summary["with_advantage"], 2);
  EXPECT_EQ(summary["virtual_groups"], 0);
  const double expected = summary["expected_acr"].get<double>();
  EXPECT_NEAR(expected, 0.5, 0.1);  // by the difficulty of these five groups
  EXPECT_NEAR(summary["excess_acr"].get<double>(), 0.6 - expected, 1e-15);
}

TEST(AdvantagesReportTest, NoRateIsExpectedOfTheGroupsThatItWouldJudge) {
  const Report report = ReportOf({}, "{\"rewards\": [1, 0]}\n{\"rewards\": [0, 0]}\n");
  EXPECT_TRUE(report.summary["expected_acr"].is_null() && report.summary["excess_acr"].is_null());
  EXPECT_THAT(report.text, HasSubstr("difficulty: no information: no group has a 'history'; by"));
}

TEST(AdvantagesReportTest, SaysWhatTheGateDid) {
  const Report report =
      ReportOf({"run.algorithm.advantage=avspo", "run.algorithm.avspo.mode=ladder"});
  EXPECT_EQ(report.summary["mode"], "ladder");
  EXPECT_EQ(report.summary["gate"],
            json::parse(R"({"rate": 0.6, "threshold": 0.5, "open": true})"));
  EXPECT_EQ(report.summary["virtual_groups"], 3);
  EXPECT_EQ(report.summary["next_threshold"], 0.5);
  EXPECT_EQ(report.summary["acr"], 0.6);  // raw, whatever was injected
  EXPECT_EQ(
      report.groups[1]["virtual"],
      json::parse(R"({"injected": true, "weight": 1.0, "samples": 4.0})"));  // ceil(4 sqrt 0.6)
  EXPECT_EQ(report.groups[1]["collapse"], "all_correct");
  EXPECT_GT(report.groups[1]["advantages"][0].get<double>(), 0.0);
  EXPECT_THAT(report.text,
              HasSubstr("gate open: rate 0.600 against 0.500, 3 groups with virtual samples"));
}

TEST(AdvantagesReportTest, EntropyScalesStandBesideAdvantages) {
  const Report report = ReportOf({"run.algorithm.advantage=rl_zvp"});
  EXPECT_EQ(report.groups[1]["entropy_scale"], json::parse("[0.1, 0.1, 0.1, 0.1]"));
  EXPECT_EQ(report.groups[2]["entropy_scale"], json::parse("[-0.1, -0.1, -0.1, -0.1]"));
  EXPECT_EQ(report.summary["with_advantage"], 4);
  EXPECT_FALSE(ReportOf({}).groups[1].contains("entropy_scale"));
}

TEST(AdvantagesReportTest, TheTextHasARowAGroupAndTheRates) {
  const std::string text = ReportOf({}).text;
  EXPECT_THAT(text, HasSubstr("q1     near collapse"));
  EXPECT_THAT(text, HasSubstr("+1.5000 -0.5000 -0.5000 -0.5000"));
  EXPECT_THAT(
      text,
      HasSubstr("6 groups: ACR 0.600 = 3 collapsed (1 all correct, 1 all wrong, 1 other) of 5"));
}

TEST(EstimatorListTest, HasALineAndAPaperForEach) {
  std::istringstream lines(EstimatorList());
  std::size_t row = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    ASSERT_LT(row, Estimators().size());
    EXPECT_TRUE(line.starts_with(std::string(Estimators()[row].name()) + " ")) << line;
    EXPECT_THAT(line, HasSubstr(std::string(Estimators()[row].paper)));
  }
  EXPECT_EQ(row, Estimators().size());
}

}  // namespace
}  // namespace buttress
