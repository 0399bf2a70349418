// The real programs with a learner on the device for tests, which it takes for GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "lib/weights/checkpoint_folder.h"
#include "lib/weights/safetensors.h"
#include "tests/support/runs/fake_vllm_run.h"
#include "tests/support/runs/launched_run.h"

namespace buttress {
namespace {

constexpr int kSteps = 6;
constexpr int kInterval = 2;  // of checkpoints
constexpr std::int64_t kRunMs = 60000;

std::string Task(const std::string& name) { return JoinPath(TinyTask::Get().folder(), name); }

// Trains on the device, or on the CPU, and returns the weights.
std::string SftWeights(const std::string& device, int ranks, const std::string& out) {
  EXPECT_EQ(RunToEnd({"mpirun",
                      "--allow-run-as-root",
                      "--oversubscribe",
                      "--bind-to",
                      "none",
                      "-np",
                      std::to_string(ranks),
                      SiblingProgram("learner"),
                      "sft",
                      "--model",
                      Task("new"),
                      "--data",
                      Task("sft.jsonl"),
                      "--out",
                      out,
                      "--steps",
                      "5",
                      "--batch",
                      "16",
                      "--lr",
                      "1e-3",
                      "--warmup",
                      "2",
                      "--device",
                      device},
                     out + ".log", kRunMs),
            0)
      << TextOf(out + ".log");
  return TextOf(JoinPath(out, "model.safetensors"));
}

// The largest difference between the float32 values of two files of the same tensors.
float Difference(const std::string& a, const std::string& b) {
  std::uint64_t header = 0;
  if (a.size() != b.size() || a.size() < sizeof header) return INFINITY;
  std::memcpy(&header, a.data(), sizeof header);
  float largest = 0;
  for (std::size_t i = sizeof header + header; i < a.size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    largest = std::max(largest, std::abs(x - y));
  }
  return largest;
}

TEST(DeviceRunTest, OneTwoAndFourRanksLearnTheWeightsOfTheCpu) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  const TempDir folder;
  const std::string on_cpu = SftWeights("cpu", 1, JoinPath(folder.path(), "cpu"));
  for (const int ranks : {1, 2, 4}) {
    const std::string out = JoinPath(folder.path(), std::to_string(ranks));
    const float difference = Difference(SftWeights("cuda", ranks, out), on_cpu);
    std::printf("%d ranks: largest difference %.2g\n", ranks, static_cast<double>(difference));
    EXPECT_LT(difference, 1e-5F) << ranks << " ranks";
  }
}

void Replace(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
}

void StartOnDevice(LaunchedRun& run) {
  std::string yaml = TextOf(run.yaml());
  Replace(yaml, "checkpoint_interval: 5",
          "checkpoint_interval: " + std::to_string(kInterval) + "\n  deterministic: true");
  Replace(yaml, "max_age: 1", "max_age: 0, window: 1");
  Replace(yaml, "  learner: {",
          "  worker: {drain_ms: 10000}\n  learner: {device: cuda, collective: nccl, ");
  ASSERT_TRUE(WriteFileAtomic(run.yaml(), yaml).ok());
  run.Start();
}

// Weights, masters and moments of both ranks.
std::string FinalWeights(const LaunchedRun& run) {
  const std::string folder = CheckpointFolderOf(JoinPath(run.out(), "checkpoint"), kSteps);
  return TextOf(JoinPath(folder, "rank-0.safetensors")) +
         TextOf(JoinPath(folder, "rank-1.safetensors"));
}

TEST(DeviceRunTest, ARunOfTwoRanksPublishesAndResumesWithTheSameBits) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  LaunchedRun whole(kSteps), cut(kSteps);
  StartOnDevice(whole);
  EXPECT_EQ(whole.Wait(kRunMs), 0) << whole.Text();
  StartOnDevice(cut);
  ASSERT_TRUE(cut.WaitForStep(kInterval + 1, kRunMs)) << cut.Text();
  const std::vector<pid_t> ranks = cut.Pids("learner");
  EXPECT_EQ(ranks.size(), 2U);
  for (const pid_t pid : ranks) ::kill(pid, SIGKILL);
  EXPECT_EQ(cut.Wait(kRunMs), 0) << cut.Text();
  for (const LaunchedRun* const run : {&whole, &cut}) ExpectStepsInOrder(*run, kSteps);
  EXPECT_FALSE(FinalWeights(whole).empty());
  EXPECT_TRUE(FinalWeights(whole) == FinalWeights(cut));
}

std::int64_t CountOf(const std::string& text, const std::string& word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

// Whatever dies meanwhile: servers that sleep keep nobody waiting.
TEST(DeviceRunTest, ServersOnTheGpusOfTheLearnerSleepWhileItTrains) {
  ASSERT_EQ(FakeVllmRun::Get().error(), "");
  std::vector<std::string> settings = FakeVllmRun::Settings(FakeVllmRun::Get().model());
  const std::string launch = "local.worker.vllm.launch.";
  for (const std::string& setting :
       {std::string("run.batch.max_age=0"), std::string("run.checkpoint_interval=1"),
        std::string("local.launch.workers=1"), std::string("local.learner.device=cuda"),
        std::string("local.learner.collective=nccl"), launch + "gpus=[0, 1]",
        launch + "colocate=true", launch + "args=[--gpu-memory-utilization, '0.5']"})
    settings.insert(settings.end(), {"--set", setting});
  settings.emplace_back("--no-eval");
  LaunchedRun run(kSteps, settings);
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  for (const pid_t pid : run.Pids("rollout_worker")) ::kill(pid, SIGKILL);
  ASSERT_TRUE(run.WaitForStep(3, kRunMs)) << run.Text();
  for (const pid_t pid : run.Pids("learner")) ::kill(pid, SIGKILL);
  EXPECT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  EXPECT_GE(CountOf(TextOf(JoinPath(run.out(), "logs/learner.log")), "free memory goes back"),
            2 * (kSteps + 1))
      << "after the steps of two ranks";
  for (const char* log : {"logs/vllm-0.log", "logs/vllm-1.log"}) {
    const std::string calls = TextOf(JoinPath(run.out(), log));
    EXPECT_GE(CountOf(calls, "POST /sleep?level=2&mode=abort\n"), kSteps) << calls;
    // The worker that was killed may have left one half awake, which its successor lets sleep.
    const std::int64_t begun = CountOf(calls, "POST /wake_up?tags=weights\n");
    const std::int64_t complete = CountOf(calls, "POST /wake_up?tags=kv_cache\n");
    EXPECT_TRUE(complete <= begun && begun <= complete + 1) << calls;
    EXPECT_GE(complete, kSteps - 1) << calls;
  }
}

}  // namespace
}  // namespace buttress
