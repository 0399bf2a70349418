// Runs in every mode of run.async, with a worker that is killed: they end, and every token is
// accounted for.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/ledger/reader.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::async_run_test {
namespace {

constexpr int kSteps = 8;
constexpr std::int64_t kRunMs = 100000;

struct AsyncCase {
  const char* in_flight;
  const char* old_tokens;
};

// `buttress status` says how many groups younger ones have passed, and how long they are.
void ExpectLateGroupsAreMeasured(const LaunchedRun& run) {
  auto ledger = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  std::int64_t late = 0, completions = 0, tokens = 0;
  const Status read = (*ledger)->ForEachGroup([&](const GroupRecord& record) {
    if (record.group.step == 0 || record.group.passed == 0) return;
    ++late;
    for (const int length : record.accepted->head->lengths()) ++completions, tokens += length;
  });
  ASSERT_TRUE(read.ok()) << read.ToString();
  const std::string log = run.log() + "-status";
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "status", run.out(), "--json"}, log, kRunMs), 0);
  const auto status = nlohmann::json::parse(TextOf(log), nullptr, false)["late_groups"];
  EXPECT_EQ(status["steps"], kSteps);
  EXPECT_EQ(status["groups"], kSteps * 8);
  EXPECT_EQ(status["late"], late);
  EXPECT_NEAR(status["late_length_mean"].get<double>() * static_cast<double>(completions),
              static_cast<double>(tokens), 1e-6 * static_cast<double>(tokens));
}

class AsyncRunTest : public ::testing::TestWithParam<AsyncCase> {};

TEST_P(AsyncRunTest, EndsWithEveryTokenAccountedFor) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  std::vector<std::string> flags = {"--no-eval"};
  for (const std::string& setting :
       {std::string("run.async.in_flight=") + GetParam().in_flight,
        std::string("run.async.old_tokens=") + GetParam().old_tokens,
        std::string("run.async.partial_ms=1"), std::string("run.batch.window=5"),
        // Slow workers, so that weights arrive, and the kill comes, in the middle of groups.
        std::string("local.worker.max_running=1")})
    flags.insert(flags.end(), {"--set", setting});
  LaunchedRun run(kSteps, flags);
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const std::vector<pid_t> workers = run.Pids("rollout_worker");
  ASSERT_FALSE(workers.empty()) << run.Text();
  ASSERT_EQ(::kill(workers.back(), SIGKILL), 0);
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  ExpectLateGroupsAreMeasured(run);
}

// Without staleness a run is on-policy to the last bit: whoever sampled, the learner finds the
// log-probs of the sampler, and the weights do not depend on the number of workers.
TEST(SynchronousRunTest, StalenessZeroIsOnPolicyBitByBit) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  std::string weights;
  for (const char* workers : {"1", "3"}) {
    LaunchedRun run(kSteps,
                    {"--no-eval", "--set", "run.deterministic=true", "--set", "run.batch.max_age=0",
                     "--set", std::string("local.launch.workers=") + workers});
    run.Start();
    ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
    const auto steps = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
    ASSERT_TRUE(steps.ok()) << steps.status().ToString();
    ASSERT_EQ(steps->size(), static_cast<std::size_t>(kSteps));
    for (const StepMeasurements& step : *steps) {
      EXPECT_EQ(step.kl, 0) << "step " << step.step;
      EXPECT_EQ(step.kl_k1, 0) << "step " << step.step;
    }
    EXPECT_GT(steps->back().grad_norm, 0);
    const std::string trained = TextOf(JoinPath(run.out(), "model/model.safetensors"));
    EXPECT_TRUE(weights.empty() || weights == trained);
    weights = trained;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AsyncRunTest,
                         ::testing::Values(AsyncCase{"recompute", "train"},
                                           AsyncCase{"keep_kv", "mask"}, AsyncCase{"drain", "mask"},
                                           AsyncCase{"abort", "drop"}),
                         [](const auto& test) { return std::string(test.param.in_flight); });

}  // namespace
}  // namespace buttress::async_run_test
