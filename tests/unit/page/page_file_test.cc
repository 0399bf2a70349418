#include "lib/page/page_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/base/os/file.h"
#include "lib/ledger/ledger.h"
#include "lib/page/assets.h"
#include "lib/page/page_data.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What is between `begin` and `end` in `text`.
std::string Between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

TEST(PageFileTest, TheDataIsInsideAndItsTextsCannotLeaveIt) {
  const nlohmann::ordered_json data = {{"run", "</script><script>alert(1)</script><!--"},
                                       {"texts", {"\xff\xe2\x80\xa8", "a \"quote\""}}};
  const std::string page = PageFile(data);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, Not(HasSubstr("page.css\"")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("<style>:root {"));
  const auto inside =
      nlohmann::json::parse(Between(page, "type=\"application/json\">", "</script>"));
  EXPECT_EQ(inside["run"], data["run"]);
  EXPECT_EQ(inside["texts"][1], data["texts"][1]);
  EXPECT_EQ(Between(page, "<script>", "</script>"), kPageJs) << "the script has no end tag inside";
}

TEST(PageFileTest, ARunWithoutACoordinatorHasTheStateOfItsLedger) {
  const TempDir dir;
  RunConfig config;
  config.run.steps = 9;
  config.local.out = dir.path();
  EXPECT_EQ(StatusInLedger(config).status().code(), StatusCode::kNotFound);
  const auto ledger = *Ledger::Open(JoinPath(dir.path(), "ledger.db"));
  EXPECT_EQ(StatusInLedger(config).status().code(), StatusCode::kFailedPrecondition);
  LedgerChanges changes;
  changes.run.emplace();
  changes.run->run_name = "made";
  changes.run->committed_step = 7;
  changes.run->checkpoint_step = 5;
  changes.collapse["a"] = {.groups = 3, .all_wrong = 1, .mixed = 2};
  changes.collapse["b"] = {.groups = 1, .unscorable = 1};
  ASSERT_TRUE(ledger->Write(changes).ok());
  const auto stopped = StatusInLedger(config);
  ASSERT_TRUE(stopped.ok()) << stopped.status().ToString();
  EXPECT_EQ(stopped->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(stopped->step(), 7U);
  EXPECT_EQ(stopped->checkpoint_step(), 5U);
  EXPECT_EQ(stopped->total_steps(), 9U);
  EXPECT_EQ(stopped->collapse().groups(), 4U);
  EXPECT_EQ(stopped->collapse_by_source().at("a").all_wrong(), 1U);
  changes.run->finished = true;
  ASSERT_TRUE(ledger->Write(changes).ok());
  EXPECT_EQ(StatusInLedger(config)->run_state(), v1::RUN_STATE_FINISHED);
}

TEST(PageFileTest, AllStepsOfALongRunAreThere) {
  const TempDir dir;
  RunConfig config;
  config.local.out = dir.path();
  std::string lines;
  for (int n = 1; n <= 1500; ++n) {
    StepMeasurements step;
    step.step = n;
    lines += StepToJson(step) + "\n";
  }
  ASSERT_TRUE(WriteFileAtomic(JoinPath(dir.path(), "steps.jsonl"), lines).ok());
  PageData data(config, nullptr, [] { return v1::GetRunStatusResponse(); });
  const auto whole = data.Whole();
  EXPECT_EQ(whole["points"].size(), 1500U);
  EXPECT_EQ(whole["latest"]["step"], 1500);
  EXPECT_EQ(whole["more"], false);
}

constexpr double kUnmeasured = StepMeasurements::kNotMeasured;

// What the script of a page shows of three steps; empty without node.
std::string ShownOf(double draw_factor, double mixed, double expected) {
  const TempDir dir;
  const std::string page = JoinPath(dir.path(), "page.html"), log = JoinPath(dir.path(), "log");
  RunConfig config;
  config.run.steps = 3;
  config.local.out = dir.path();
  for (int n = 1; n <= 3; ++n) {
    StepMeasurements step;
    step.step = n;
    step.draw_factor = draw_factor;
    step.plan_mixed = mixed;
    step.expected_mixed = expected;
    EXPECT_TRUE(AppendStep(JoinPath(dir.path(), "steps.jsonl"), step).ok());
  }
  PageData data(config, nullptr, [] { return v1::GetRunStatusResponse(); });
  EXPECT_TRUE(WriteFileAtomic(page, PageFile(data.Whole())).ok());
  if (std::system("command -v node > /dev/null") != 0) return "";
  const std::string command = "node " BUTTRESS_SOURCE_DIR "/tests/support/runs/page_dom.js " + page;
  EXPECT_EQ(std::system((command + " > " + log).c_str()), 0);
  const Result<std::string> shown = ReadFile(log);
  return shown.ok() ? *shown : "";
}

TEST(PageFileTest, TheClosedLoopHasChartsWhereItRan) {
  const std::string shown = ShownOf(1.625, 0.6875, 0.71875);
  if (shown.empty()) GTEST_SKIP() << "node is not installed (apt-get install nodejs)";
  EXPECT_THAT(
      shown, AllOf(HasSubstr("Closed loop: mixed groups"), HasSubstr("control mixed 0.688"),
                   HasSubstr("control mixed expected 0.719"), HasSubstr("Closed loop: draw factor"),
                   HasSubstr("control draw factor 1.625")));
  EXPECT_THAT(ShownOf(kUnmeasured, 0.6875, kUnmeasured), Not(HasSubstr("Closed loop")));
}

}  // namespace
}  // namespace buttress
