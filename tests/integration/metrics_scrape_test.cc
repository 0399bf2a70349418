// Checks /metrics of running programs with promtool, and the ACR against a recount from the ledger.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "lib/ledger/audit.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::metrics_scrape_test {
namespace {

constexpr std::int64_t kRunMs = 100000;
constexpr int kEndless = 1000000;  // steps

std::string Scrape(const std::string& address, const std::string& to) {
  RunToEnd({"curl", "-sS", "--max-time", "60", "http://" + address + "/metrics"}, to, kRunMs);
  return TextOf(to);
}

// Every family must be in docs/metrics.md.
void ExpectDocumented(const std::string& scraped) {
  const std::string page = TextOf(BUTTRESS_DOCS_DIR "/metrics.md");
  std::istringstream lines(scraped);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
  }
}

double ValueOf(const std::string& text, const std::string& series) {
  const std::size_t at = text.find("\n" + series + " ");
  if (at == std::string::npos) return -1;
  return std::stod(text.substr(at + series.size() + 2));
}

TEST(MetricsScrapeTest, AllMetricsAreDocumentedPromtoolAcceptsThemAndTheAcrEqualsTheLedger) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(kEndless, {"--no-eval"});
  run.Start();
  ASSERT_TRUE(run.WaitForStep(6, kRunMs)) << run.Text();
  const std::string out = run.out();
  for (const char* file : {"coordinator.metrics", "workers/w0.metrics", "workers/w1.metrics",
                           "learner/0.metrics", "learner/1.metrics"}) {
    // The run takes steps before all of its workers are there.
    ASSERT_TRUE(WaitUntil(kRunMs, [&] { return ReadFile(JoinPath(out, file)).ok(); })) << file;
    const std::string address = TextOf(JoinPath(out, file));
    const std::string scraped = JoinPath(out, "scraped.txt");
    std::remove(scraped.c_str());
    const std::string text = Scrape(address.substr(0, address.find('\n')), scraped);
    EXPECT_NE(text.find("buttress_build_info"), std::string::npos) << file << ": " << text;
    ExpectDocumented(text);
    const std::string log = JoinPath(out, "promtool.log");
    std::remove(log.c_str());
    EXPECT_EQ(RunToEnd({"sh", "-c", "promtool check metrics < " + scraped}, log, kRunMs), 0)
        << file << ": " << TextOf(log);
  }
  // A coordinator restored from the ledger continues its counters. Without learner and workers the
  // counters do not change afterwards.
  run.process().Signal(SIGKILL);
  KillDescendants();
  const std::string log = JoinPath(out, "coordinator-again.log");
  std::remove(JoinPath(out, "coordinator.metrics").c_str());
  auto coordinator = Process::Start({SiblingProgram("coordinator"), "--config", run.yaml()}, log);
  ASSERT_TRUE(coordinator.ok());
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return ReadFile(JoinPath(out, "coordinator.metrics")).ok();
  })) << TextOf(log);
  const std::string address = TextOf(JoinPath(out, "coordinator.metrics"));
  const std::string text =
      Scrape(address.substr(0, address.find('\n')), JoinPath(out, "again.txt"));
  coordinator->Signal(SIGTERM);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return !coordinator->Running(); }));
  auto reader = LedgerReader::Open(JoinPath(out, "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto audit = AuditLedger(**reader);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  const CollapseCounts* const collapse = &audit->recounted;
  EXPECT_GT(collapse->groups, 0);
  const std::string series = "buttress_coordinator_groups_scored_total{collapse=\"";
  EXPECT_EQ(ValueOf(text, series + "mixed\"}"), static_cast<double>(collapse->mixed)) << text;
  EXPECT_EQ(ValueOf(text, series + "all_correct\"}"), static_cast<double>(collapse->all_correct));
  EXPECT_EQ(ValueOf(text, series + "all_wrong\"}"), static_cast<double>(collapse->all_wrong));
  EXPECT_EQ(ValueOf(text, series + "other_constant\"}"),
            static_cast<double>(collapse->other_constant));
}

// The first commit of a turn sleeps, as it would on a disk that does not answer.
TEST(MetricsScrapeTest, ACoordinatorWhoseDiskDoesNotAnswerIsNeitherAliveNorReady) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun run(4, {"--no-eval"});
  const TempDir dir;
  const auto probe = [&](const std::string& name) {
    const std::string address = TextOf(JoinPath(run.out(), "coordinator.metrics"));
    const std::string to = JoinPath(dir.path(), "probe.txt");
    std::remove(to.c_str());
    RunToEnd({"curl", "-sS", "--max-time", "60",
              "http://" + address.substr(0, address.find('\n')) + "/" + name},
             to, kRunMs);
    return TextOf(to);
  };
  ::setenv("BUTTRESS_FAILPOINTS", "after_commit:sleep:3600000", 1);
  run.Start();
  ::unsetenv("BUTTRESS_FAILPOINTS");
  ASSERT_TRUE(WaitUntil(kRunMs, [&] { return probe("livez") == "ok\n"; })) << run.Text();
  EXPECT_TRUE(WaitUntil(kRunMs, [&] {
    return probe("livez").find("has not turned for") != std::string::npos;
  })) << run.Text();
  EXPECT_NE(probe("readyz").find("has not turned for"), std::string::npos);
  run.process().Signal(SIGKILL);
}

}  // namespace
}  // namespace buttress::metrics_scrape_test
