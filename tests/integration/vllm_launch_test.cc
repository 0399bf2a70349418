// `buttress launch` with vLLM servers that it starts itself: the program is a fake that answers as
// vLLM does, if its flags and environment are those that a run needs.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/config/run_folder.h"
#include "tests/support/brake.h"
#include "tests/support/runs/fake_vllm_run.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::vllm_launch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 6;
constexpr int kGroupsOfAStep = 8;
constexpr std::int64_t kRunMs = 60000;

class VllmLaunchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(FakeVllmRun::Get().error(), "");
    // GPUs for the check of their numbers.
    ::setenv("LD_LIBRARY_PATH", FAKE_DRIVER_FOLDER, 1);
    ::setenv("FAKE_GPUS", "4", 1);
  }

  // A server on each of two GPUs.
  static std::vector<std::string> Settings() {
    std::vector<std::string> argv = FakeVllmRun::Settings(FakeVllmRun::Get().model());
    argv.insert(argv.end(), {"--no-eval", "--set", "local.worker.vllm.launch.gpus=[2, 3]"});
    return argv;
  }

  static std::string ServerLog(const LaunchedRun& run, int server) {
    return TextOf(JoinPath(run.out(), "logs/vllm-" + std::to_string(server) + ".log"));
  }
};

TEST_F(VllmLaunchTest, AServerThatIsKilledStartsAgainAndNothingIsLeftAtTheEnd) {
  const Brake brake(2);
  LaunchedRun run(kSteps, brake.With(Settings()));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const std::vector<pid_t> servers = run.Pids("fake_vllm");
  ASSERT_EQ(servers.size(), 2u) << run.Text();
  ASSERT_EQ(run.Pids("fake_engine").size(), 2u);
  ASSERT_EQ(::kill(servers.front(), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return TextOf(run.log()).find("died (killed by signal 9); restart 1 of 5") != std::string::npos;
  })) << run.Text();
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  EXPECT_TRUE(Descendants().empty());
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * kGroupsOfAStep);
  EXPECT_THAT(ServerLog(run, 0),
              HasSubstr("devices [2] model " + FakeVllmRun::Get().model() + "\n"));
  EXPECT_THAT(ServerLog(run, 1),
              HasSubstr("devices [3] model " + FakeVllmRun::Get().model() + "\n"));
}

// The worker of a server that is stuck in NCCL writes this file.
TEST_F(VllmLaunchTest, AServerStartsAgainWhenItsWorkerAsksForIt) {
  const Brake brake(2);
  LaunchedRun run(kSteps, brake.With(Settings()));
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kRunMs)) << run.Text();
  const std::vector<pid_t> servers = run.Pids("fake_vllm");
  ASSERT_EQ(servers.size(), 2u) << run.Text();
  std::ifstream command("/proc/" + std::to_string(servers.front()) + "/cmdline");
  std::string arguments{std::istreambuf_iterator<char>(command), {}};
  std::ranges::replace(arguments, '\0', ' ');
  const std::size_t port = arguments.find("--port ") + std::strlen("--port ");
  const std::string file =
      VllmRestartPath(run.out(), arguments.substr(port, arguments.find(' ', port) - port));
  ASSERT_TRUE(WriteFileAtomic(file, "").ok());
  ASSERT_TRUE(WaitUntil(kRunMs, [&] {
    return TextOf(run.log()).find("restart 1 of 5") != std::string::npos;
  })) << run.Text();
  EXPECT_NE(::kill(servers.front(), 0), 0);
  EXPECT_EQ(::kill(servers.back(), 0), 0);
  EXPECT_FALSE(std::filesystem::exists(file));
  brake.Release();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(VllmLaunchTest, NothingOutlivesALaunchThatIsKilled) {
  LaunchedRun run(1000, Settings());
  run.Start();
  ASSERT_TRUE(run.WaitForStep(1, kRunMs)) << run.Text();
  run.process().Signal(SIGKILL);
  EXPECT_EQ(run.Wait(kRunMs), 128 + SIGKILL);
  EXPECT_TRUE(WaitUntil(kRunMs, [] { return Descendants().empty(); }))
      << Descendants().front().name << run.Text();
}

TEST_F(VllmLaunchTest, AnArgumentThatVllmDoesNotKnowEndsTheRunWithItsName) {
  LaunchedRun run(kSteps, Settings());
  run.Start({"--set", "local.worker.vllm.launch.args=[--no-such-flag]"});
  ASSERT_EQ(run.Wait(kRunMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("unrecognized arguments: --no-such-flag"));
  EXPECT_TRUE(Descendants().empty());
}

class VllmEvalTest : public VllmLaunchTest {
 protected:
  // Two prompts, of which the server knows one.
  std::string Prompts() const {
    const std::string prompts = JoinPath(dir_.path(), "prompts.jsonl");
    EXPECT_TRUE(WriteFileAtomic(prompts,
                                "{\"prompt\":\"1+2:\",\"answer\":\"3\"}\n"
                                "{\"prompt\":\"2+2:\",\"answer\":\"4\"}\n")
                    .ok());
    return prompts;
  }

  static std::vector<std::string> WithServer(std::vector<std::string> argv,
                                             const std::vector<std::string>& flags) {
    argv.insert(argv.begin(), SiblingProgram("buttress"));
    argv.insert(argv.end(), {"--vllm", SiblingProgram("fake_vllm")});
    argv.insert(argv.end(), flags.begin(), flags.end());
    return argv;
  }

  std::vector<std::string> Eval(const std::vector<std::string>& flags) const {
    return WithServer({"eval", "--prompts", Prompts(), "--verifier", "number"}, flags);
  }

  std::vector<std::string> Probe(const std::vector<std::string>& flags) const {
    const std::string file = JoinPath(dir_.path(), "run.yaml");
    EXPECT_TRUE(WriteFileAtomic(file, "run:\n  data: {prompts: " + Prompts() +
                                          "}\n  model: {path: " + FakeVllmRun::Get().model() +
                                          "}\n  reward: {verifier: number}\n")
                    .ok());
    return WithServer({"probe", file}, flags);
  }

  std::string log() const { return JoinPath(dir_.path(), "log"); }

  // Those that evaluations have left.
  std::int64_t ServerLogs() const {
    return std::ranges::count_if(
        std::filesystem::directory_iterator(dir_.path()),
        [](const auto& entry) { return entry.path().string().ends_with("-vllm.log"); });
  }

  void SetUp() override { ::setenv("TMPDIR", dir_.path().c_str(), 1); }

  void TearDown() override { ::unsetenv("TMPDIR"); }

  const TempDir dir_;
};

TEST_F(VllmEvalTest, TheServerOfAnEvaluationServesItsModelAndEndsWithIt) {
  const std::string model = FakeVllmRun::Get().model();
  ASSERT_EQ(
      RunToEnd(Eval({"--model", model, "--vllm-gpus", "2,3", "--vllm-arg=--seed", "--vllm-arg=7"}),
               log(), kRunMs),
      0)
      << TextOf(log());
  EXPECT_THAT(TextOf(log()), HasSubstr("accuracy 50 %"));
  EXPECT_TRUE(WaitUntil(kRunMs, [] { return Descendants().empty(); }));
  EXPECT_EQ(ServerLogs(), 0);
  EXPECT_EQ(RunToEnd(Eval({"--model", model, "--k", "2"}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("eval: the output of vLLM is in " + dir_.path()));
  EXPECT_EQ(ServerLogs(), 1);
}

TEST_F(VllmEvalTest, TheServerOfAProbeServesTheModelOfTheRunAndEndsWithIt) {
  ASSERT_EQ(RunToEnd(Probe({"--vllm-gpus", "1", "--group-size", "4"}), log(), kRunMs), 0)
      << TextOf(log());
  EXPECT_THAT(TextOf(log()), HasSubstr("2 of 2 prompts, 4 completions of each"));
  EXPECT_THAT(TextOf(log()), HasSubstr("none of 4 completions right                50.0 %"));
  EXPECT_THAT(TextOf(log()), HasSubstr("all of 4 completions right                 50.0 %"));
  EXPECT_TRUE(WaitUntil(kRunMs, [] { return Descendants().empty(); }));
  EXPECT_EQ(ServerLogs(), 0);
  EXPECT_EQ(RunToEnd(Probe({"--set", "run.data.prompts=/nowhere"}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("probe: the output of vLLM is in " + dir_.path()));
  EXPECT_EQ(ServerLogs(), 1);
  EXPECT_TRUE(WaitUntil(kRunMs, [] { return Descendants().empty(); }));
}

TEST_F(VllmEvalTest, WhatTheServerOfAProbeCannotDoIsNamedBeforeItStarts) {
  EXPECT_EQ(RunToEnd(Probe({"--reference", "x"}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("--reference does not go with --vllm"));
  EXPECT_EQ(RunToEnd(WithServer({"probe"}, {}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("name the file first, or with --config"));
  EXPECT_EQ(RunToEnd({SiblingProgram("buttress"), "probe", "--vllm-gpus", "1"}, log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("are of --vllm, which starts a server"));
  EXPECT_EQ(ServerLogs(), 0);
}

TEST_F(VllmEvalTest, AServerThatCannotStartEndsTheEvaluation) {
  const std::string model = FakeVllmRun::Get().model();
  EXPECT_EQ(RunToEnd(Eval({"--model", model, "--vllm-arg=--no-such-flag"}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("vLLM ended with status 2 before it served"));
  EXPECT_EQ(RunToEnd(Eval({"--model", "/nowhere"}), log(), kRunMs), 3);
  EXPECT_THAT(TextOf(log()), HasSubstr("/nowhere/config.json"));
  EXPECT_EQ(RunToEnd(Eval({"--model", model, "--server", "http://x"}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("--vllm starts one; leave one out"));
  const std::string file = JoinPath(dir_.path(), "run.yaml");
  ASSERT_TRUE(WriteFileAtomic(file, "run: {model: {dtype: bfloat32}}\n").ok());
  EXPECT_EQ(RunToEnd(Eval({"--model", model, "--config", file}), log(), kRunMs), 2);
  EXPECT_THAT(TextOf(log()), HasSubstr("'bfloat32' is unknown"));
  EXPECT_THAT(TextOf(log()), Not(HasSubstr("vLLM answers"))) << "its dtype is the server's";
}

TEST_F(VllmLaunchTest, WhatCannotWorkIsNamedBeforeAnythingStarts) {
  LaunchedRun run(kSteps, Settings());
  run.Start({"--set", "local.worker.vllm.launch.gpus=[4]", "--set",
             "local.worker.vllm.launch.binary=/nowhere/vllm"});
  ASSERT_EQ(run.Wait(kRunMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("GPU 4 is not there: 4 are visible"));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("no program /nowhere/vllm; `deploy/setup.sh --vllm"));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("2 workers on this machine share 1 vLLM servers"));
}

TEST_F(VllmLaunchTest, ServersOfOthersAreAskedBeforeAnythingStarts) {
  LaunchedRun run(kSteps, Settings());
  run.Start({"--set", "local.worker.vllm.launch={binary: ''}", "--set",
             "local.worker.vllm.servers=['http://127.0.0.1:1']"});
  ASSERT_EQ(run.Wait(kRunMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("http://127.0.0.1:1/health: "));
  EXPECT_THAT(TextOf(run.log()), HasSubstr("; start it first, or let the run start servers"));
  EXPECT_THAT(TextOf(run.log()), Not(HasSubstr("learner ranks; folder")));
}

TEST_F(VllmLaunchTest, APortThatIsInUseIsNamedBeforeTheServerStarts) {
  const OwnedFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const as_any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), as_any, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), as_any, &size), 0);
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log"),
                    port = std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(
      RunToEnd({SiblingProgram("buttress"), "vllm-server", "--model", FakeVllmRun::Get().model(),
                "--binary", SiblingProgram("fake_vllm"), "--port", port},
               log, kRunMs),
      3);
  EXPECT_THAT(TextOf(log), HasSubstr("port " + port + " of 127.0.0.1 is in use; name another one"));
  EXPECT_THAT(TextOf(log), Not(HasSubstr("devices")));
}

}  // namespace
}  // namespace buttress::vllm_launch_test
