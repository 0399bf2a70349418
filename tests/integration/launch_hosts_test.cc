// `buttress launch --hosts` over ssh on three machines (network namespaces, each with its own sshd
// and without a shared folder), with TLS: faults of the other machines cost time, a stop leaves no
// process anywhere, and what is missing on a machine is named before anything starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <optional>

#include "lib/measure/steps_file.h"
#include "tests/support/runs/fake_vllm_run.h"
#include "tests/support/runs/machines.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/runs/ssh_servers.h"

namespace buttress::launch_hosts_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kStartMs = 120000;
constexpr std::int64_t kRunMs = 240000;
constexpr char kHosts[] = "co coordinator ranks=1\nn1 ranks=1 workers=1\nroot@n2 workers=1\n";

class LaunchHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Machines::Forbidden(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = SshServers::Forbidden(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_EQ(TinyTask::Get().error(), "");
  }
};

// Three machines with what a run of `steps` steps needs on each.
class HostsRun {
 public:
  explicit HostsRun(int steps) : steps_(steps) {
    for (const std::string name : {"co", "n1", "n2"}) Install(name);
  }

  ~HostsRun() { KillDescendants(); }

  void Start(const std::string& more = "", const std::string& command = "launch") {
    auto process = Process::Start(machines_.On("co", {"sh", "-c",
                                                      "cd /tmp && exec \"$0\" " + command +
                                                          " run.yaml --hosts fleet --ssh '" +
                                                          SshServers::Command() + "' " + more,
                                                      SiblingProgram("buttress")}),
                                  log());
    ASSERT_TRUE(process.ok());
    launch_ = *process;
  }

  // Exit code, or -1 if it did not end in time.
  int Wait(std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [this] { return !launch_->Running(); }) ? launch_->exit_code()
                                                                         : -1;
  }

  std::int64_t step() const {
    const auto steps = ReadSteps(machines_.Path("co", "/tmp/run/steps.jsonl"));
    return steps.ok() && !steps->empty() ? static_cast<std::int64_t>(steps->back().step) : 0;
  }

  bool WaitForStep(std::int64_t wanted, std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [&] { return step() >= wanted || !launch_->Running(); }) &&
           step() >= wanted;
  }

  // Processes of a machine whose program has this name.
  std::vector<pid_t> Pids(const std::string& machine, const std::string& program) const {
    std::vector<pid_t> pids;
    for (const ProcessInfo& info : Descendants()) {
      if (info.name == program && SshServers::NetworkOf(info.pid) == machines_.Network(machine))
        pids.push_back(info.pid);
    }
    return pids;
  }

  // Names of the run's processes that are left on any machine.
  std::vector<std::string> Left() const {
    std::vector<std::string> left;
    for (const ProcessInfo& info : Descendants()) {
      for (const char* name : {"buttress", "coordinator", "rollout_worker", "learner", "mpirun",
                               "orted", "ssh", "fake_vllm", "fake_engine"}) {
        if (info.name == name) left.push_back(info.name);
      }
    }
    return left;
  }

  bool Says(const std::string& text, std::int64_t timeout_ms) const {
    return WaitUntil(timeout_ms, [&] { return TextOf(log()).find(text) != std::string::npos; });
  }

  std::string Text() const {
    std::string text = TextOf(log());
    for (const char* role : {"host-n1", "coordinator", "worker-w0", "worker-w1", "learner"}) {
      const std::string all =
          TextOf(machines_.Path("co", std::string("/tmp/run/logs/") + role + ".log"));
      text += std::string("\n--- ") + role + "\n" +
              all.substr(all.size() - std::min<std::size_t>(all.size(), 3000));
    }
    return text;
  }

  // Ctrl-C.
  void Interrupt() { launch_->Signal(SIGINT); }

  void KillLaunch() { launch_->Signal(SIGKILL); }

  std::string log() const { return JoinPath(dir_.path(), "launch.log"); }

  std::string Path(const std::string& machine, const std::string& path) const {
    return machines_.Path(machine, path);
  }

  Machines& machines() { return machines_; }

  SshServers& servers() { return servers_; }

 private:
  void Install(const std::string& name) {
    const std::string tmp = machines_.Path(name, "/tmp");
    fs::create_directories(tmp + "/task");
    fs::create_directories(tmp + "/certs");
    fs::copy(TinyTask::Get().folder() + "/model", tmp + "/task/model", fs::copy_options::recursive);
    for (const std::string& file : {std::string("ca.pem"), std::string("worker.token"),
                                    std::string("learner.token"), std::string("monitor.token")})
      fs::copy(certificates_.Path(file), tmp + "/certs/" + file);
    fs::copy(certificates_.Path(name + ".pem"), tmp + "/certs/host.pem");
    fs::copy(certificates_.Path(name + ".key"), tmp + "/certs/host.key");
    if (name != "co") return;  // the others get their configuration from launch
    fs::copy(certificates_.Path("operator.token"), tmp + "/certs/operator.token");
    fs::copy(TinyTask::Get().folder() + "/train.jsonl", tmp + "/task/train.jsonl");
    std::ofstream(tmp + "/fleet") << kHosts;
    std::ofstream(tmp + "/run.yaml") << Yaml();
  }

  std::string Yaml() const {
    return "run:\n  name: hosts\n  steps: " + std::to_string(steps_) +
           "\n  checkpoint_interval: 5\n  lease_ms: 6000\n  data: {prompts: task/train.jsonl}\n"
           "  model: {path: task/model}\n  sampling: {group_size: 4, max_tokens: 8}\n"
           "  batch: {prompts: 8, max_age: 1}\n  reward: {verifier: countdown, use_all: true}\n"
           "  algorithm: {advantage: avspo, avspo: {mode: opposite}}\n  optim: {lr: 3e-4}\n"
           "local:\n  out: run\n"
           "  security: {certificate: certs/host.pem, key: certs/host.key, ca: certs/ca.pem, "
           "tokens: certs}\n"
           "  learner: {interface: eth0, collective_timeout_ms: 40000, "
           "stop_when: {uninformative_steps: 0}}\n";
  }

  TempDir dir_;
  int steps_;
  Machines machines_{{"co", "n1", "n2"}};
  MadeCertificates certificates_{"co n1 n2"};
  SshServers servers_{machines_, "co", {"n1", "n2"}};
  std::optional<Process> launch_;
};

void ExpectEveryStepOnce(const HostsRun& run, std::int64_t steps) {
  const auto records = ReadSteps(run.Path("co", "/tmp/run/steps.jsonl"));
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(static_cast<std::int64_t>(records->size()), steps);
  for (std::size_t i = 0; i < records->size(); ++i)
    EXPECT_EQ((*records)[i].step, static_cast<double>(i + 1));
}

void ExpectNothingLeft(const HostsRun& run) {
  EXPECT_TRUE(WaitUntil(40000, [&] { return run.Left().empty(); }))
      << ::testing::PrintToString(run.Left());
}

TEST_F(LaunchHostsTest, FaultsOfOtherMachinesCostTimeAndTheRunEnds) {
  constexpr int kSteps = 60;
  HostsRun run(kSteps);
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kStartMs)) << run.Text();
  EXPECT_EQ(run.Pids("co", "rollout_worker").size(), 0U);
  EXPECT_EQ(run.Pids("co", "learner").size(), 1U);
  EXPECT_EQ(run.Pids("n1", "learner").size(), 1U);
  const std::vector<pid_t> first = run.Pids("n1", "rollout_worker");
  ASSERT_EQ(first.size(), 1U);
  ::kill(first.front(), SIGKILL);
  EXPECT_TRUE(run.Says("worker-w0 died (killed by signal 9); restart 1", 20000)) << run.Text();
  EXPECT_TRUE(WaitUntil(60000, [&] {
    const std::vector<pid_t> now = run.Pids("n1", "rollout_worker");
    return now.size() == 1 && now != first;
  })) << run.Text();

  // A short cut of one machine's network breaks no connection.
  run.machines().Drop("co", "n2");
  WaitUntil(8000, [&] { return false; });
  EXPECT_GT(run.machines().Heal(), 0);
  const std::int64_t before = run.step();
  ASSERT_TRUE(run.WaitForStep(before + 1, 60000)) << run.Text();

  // Without its sshd n2 cannot be reached, and its worker leaves; both come back.
  run.servers().Kill("n2");
  EXPECT_TRUE(WaitUntil(40000, [&] { return run.Pids("n2", "rollout_worker").empty(); }))
      << run.Text();
  run.servers().Start("n2");
  EXPECT_TRUE(WaitUntil(60000, [&] { return run.Pids("n2", "rollout_worker").size() == 1; }))
      << run.Text();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectEveryStepOnce(run, kSteps);
  EXPECT_TRUE(fs::exists(run.Path("co", "/tmp/run/summary.json")));
  EXPECT_FALSE(fs::exists(run.Path("n1", "/tmp/run/ledger.db")));
  ExpectNothingLeft(run);
}

TEST_F(LaunchHostsTest, AStopOrTheDeathOfLaunchLeavesNoProcessOnAnyMachine) {
  constexpr int kSteps = 40;
  HostsRun run(kSteps);
  run.Start();
  ASSERT_TRUE(run.WaitForStep(2, kStartMs)) << run.Text();
  run.Interrupt();
  ASSERT_EQ(run.Wait(60000), 130) << run.Text();
  ExpectNothingLeft(run);
  run.Start();
  const std::int64_t before = run.step();
  ASSERT_TRUE(run.WaitForStep(before + 2, kStartMs)) << run.Text();
  run.KillLaunch();
  EXPECT_EQ(run.Wait(20000), 128 + SIGKILL);
  ExpectNothingLeft(run);
  run.Start();
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectEveryStepOnce(run, kSteps);
}

TEST_F(LaunchHostsTest, VllmServersRunOnTheMachinesOfTheWorkersAndEndWithTheRun) {
  ASSERT_EQ(FakeVllmRun::Get().error(), "");
  HostsRun run(100000);
  for (const char* name : {"co", "n1", "n2"}) {
    fs::copy(FakeVllmRun::Get().model(), run.Path(name, "/tmp/task/wide"),
             fs::copy_options::recursive);
  }
  std::string settings;
  for (const std::string& argument : FakeVllmRun::Settings("task/wide"))
    settings += " " + ShellWord(argument);
  run.Start(settings);
  ASSERT_TRUE(run.WaitForStep(1, kStartMs)) << run.Text();
  EXPECT_TRUE(run.Pids("co", "fake_vllm").empty());
  for (const char* name : {"n1", "n2"}) {
    EXPECT_TRUE(WaitUntil(kStartMs, [&] { return run.Pids(name, "fake_vllm").size() == 1; }))
        << name << run.Text();
  }
  for (const pid_t server : run.Pids("n1", "fake_vllm")) ::kill(server, SIGKILL);
  EXPECT_TRUE(run.Says("vllm-0 died (killed by signal 9); restart 1", 20000)) << run.Text();
  EXPECT_TRUE(WaitUntil(kStartMs, [&] { return run.Pids("n1", "fake_vllm").size() == 1; }));
  const std::int64_t before = run.step();
  ASSERT_TRUE(run.WaitForStep(before + 2, kStartMs)) << run.Text();
  run.Interrupt();
  ASSERT_EQ(run.Wait(60000), 130) << run.Text();
  ExpectNothingLeft(run);
}

TEST_F(LaunchHostsTest, ACheckAndTheDoctorLookAtEveryMachineAndStartTheRanks) {
  HostsRun run(2);
  for (const auto& [command, flag] : {std::pair{"launch", "--check"}, std::pair{"doctor", ""}}) {
    fs::remove(run.log());
    run.Start(flag, command);
    ASSERT_EQ(run.Wait(kStartMs), 0) << run.Text();
    const std::string said = TextOf(run.log());
    EXPECT_THAT(said, HasSubstr("ok       n1: its clock is within ")) << command;
    EXPECT_THAT(said, HasSubstr("ok       root@n2: it has a run folder of its own")) << command;
    EXPECT_THAT(said, HasSubstr("ok       local.launch.mpirun: 2 learner ranks start")) << command;
    EXPECT_FALSE(fs::exists(run.Path("co", "/tmp/run/launch.yaml"))) << command;
  }
  // The tokenizer differs by a byte that means nothing; what else differs is not known.
  std::ofstream(run.Path("n2", "/tmp/task/model/tokenizer.json"), std::ios::app) << "\n";
  run.Start("--check");
  ASSERT_EQ(run.Wait(kStartMs), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()),
              HasSubstr("root@n2: run.model.path: config.json, tokenizer.json or the weights "
                        "differ from those of this machine"));
  ExpectNothingLeft(run);
}

TEST_F(LaunchHostsTest, WhatIsMissingOnAMachineIsNamedBeforeAnythingStarts) {
  HostsRun run(2);
  fs::remove(run.Path("n1", "/tmp/certs/host.pem"));
  fs::remove_all(run.Path("n2", "/tmp/task/model"));
  run.Start();
  ASSERT_EQ(run.Wait(kStartMs), 2) << run.Text();
  const std::string said = TextOf(run.log());
  EXPECT_THAT(said, HasSubstr("nothing was started:"));
  EXPECT_THAT(said, HasSubstr("n1: buttress: local.security.certificate: "));
  EXPECT_THAT(said, HasSubstr("certs/host.pem"));
  EXPECT_THAT(said, HasSubstr("root@n2: buttress: run.model.path: no folder /tmp/task/model"));
  EXPECT_FALSE(fs::exists(run.Path("co", "/tmp/run/ledger.db")));
  run.servers().Kill("n2");
  run.Start();
  ASSERT_EQ(run.Wait(kStartMs), 3) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("root@n2 is not reached: ssh ended with status 255"));
  std::ofstream(run.Path("co", "/tmp/fleet")) << "n1 coordinator ranks=1 workers=1\n";
  run.Start();
  ASSERT_EQ(run.Wait(20000), 2) << run.Text();
  EXPECT_THAT(TextOf(run.log()), HasSubstr("n1 has the field coordinator, and is no address of"));
  ExpectNothingLeft(run);
}

}  // namespace
}  // namespace buttress::launch_hosts_test
