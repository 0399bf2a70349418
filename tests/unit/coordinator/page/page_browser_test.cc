// The page in a browser, with texts that try to become scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/page/page_server.h"
#include "lib/page/page_data.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/runs/browser.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "<script>document.title='owned'</script><img src=x onerror=alert(1)>";

void WriteSteps(const std::string& out) {
  for (int n = 1; n <= 5; ++n) {
    StepMeasurements step;
    step.step = n;
    step.time_unix = 1000 + n;
    step.raw_reward_mean = 0.8125;
    step.acr = 0.375;
    step.seconds_step = 1;
    step.seconds_wait = 0.5;
    step.sources.resize(2);
    step.sources[0].source = kHostile;
    step.sources[1].source = "other";
    for (SourceMeasurements& source : step.sources)
      source.collapse = {.groups = 2, .all_correct = 1, .mixed = 1};
    step.components = {{"rewards.py:answer", 2, 8}, {kHostile, 6, 8}};
    if (n == 3) step.alarms = {Alarm::kCollapse};
    if (n == 4) step.eval_step = 2, step.eval_accuracy = 0.5;
    ASSERT_TRUE(AppendStep(JoinPath(out, "steps.jsonl"), step).ok());
  }
}

v1::GetRunStatusResponse HostileStatus() {
  v1::GetRunStatusResponse status;
  status.set_run_state(v1::RUN_STATE_RUNNING);
  status.set_end_reason(kHostile);
  auto* const worker = status.add_workers();
  worker->set_worker_id(kHostile);
  worker->set_registered(true);
  worker->set_leases(17);
  worker->mutable_time()->set_up_seconds(10);
  worker->mutable_time()->set_generating_seconds(6.25);
  status.mutable_coordinator_time()->set_up_seconds(100);
  status.mutable_coordinator_time()->set_busy_seconds(40);
  status.mutable_coordinator_time()->set_ledger_seconds(31);
  for (const char* source : {kHostile, "other"}) {
    v1::CollapseCounts& counts = (*status.mutable_collapse_by_source())[source];
    counts.set_groups(1234);
    counts.set_mixed(1);
  }
  return status;
}

TEST(PageBrowserTest, TheNumbersAreShownAndNoTextBecomesAScript) {
  if (!HasBrowser()) GTEST_SKIP() << kNoBrowser;
  const TempDir dir;
  WriteSteps(dir.path());
  ASSERT_TRUE(MakeFolders(JoinPath(dir.path(), "logs")).ok());
  ASSERT_TRUE(AppendToFile(JoinPath(dir.path(), "logs/learner.log"),
                           "2026-01-01T00:00:01.000Z E learner/0 " + std::string(kHostile) + "\n")
                  .ok());
  RunConfig config;
  config.run.name = kHostile;
  config.run.steps = 10;
  config.local.out = dir.path();
  const ByteTokenizer tokenizer;
  PageData data(config, &tokenizer, [] { return HostileStatus(); });
  const std::string link_path = JoinPath(dir.path(), "coordinator.page");
  auto server = PageServer::Start(
      "127.0.0.1:0", {}, link_path,
      [&data](double after, std::int64_t generation) { return data.Get(after, generation); });
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  std::string link = TextOf(link_path);
  link.pop_back();
  const Rendered page = Render(link);
  EXPECT_THAT(page.log, Not(HasSubstr("CONSOLE"))) << page.log;
  EXPECT_THAT(
      page.dom,
      AllOf(HasSubstr("step 5 of 10"), HasSubstr("raw reward mean 0.813"),
            HasSubstr("rewards.py:answer 0.25"), HasSubstr("acr 0.375"), HasSubstr("1234 groups"),
            HasSubstr("17"), HasSubstr("generates 63 %"), HasSubstr("writes the ledger 31 %"),
            HasSubstr("Held-out prompts"), HasSubstr("`buttress explain` names the causes")))
      << page.dom;
  // In the title, the head, the end's reason, two sources, a worker and the log.
  EXPECT_THAT(page.dom, HasSubstr("&lt;script&gt;document.title='owned'&lt;/script&gt;&lt;img"));
  EXPECT_THAT(page.dom, AllOf(Not(HasSubstr("<script>document")), Not(HasSubstr("<img")),
                              Not(HasSubstr("<title>owned"))));
}

}  // namespace
}  // namespace buttress
