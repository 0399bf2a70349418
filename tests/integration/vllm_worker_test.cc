// The program rollout_worker with two scripted vLLM servers, of which one dies, hangs, is slow or
// restarts: every group is completed, and every token is one of the version that it is given as.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "lib/weights/manifest.h"
#include "lib/weights/publisher.h"
#include "tests/support/fakes/fake_coordinator.h"
#include "tests/support/fakes/scripted_vllm.h"
#include "tests/support/runs/published_weights.h"
#include "tests/support/runs/quickstart_run.h"

namespace buttress::vllm_worker_test {
namespace {

constexpr std::size_t kPromptTokens = 3;
constexpr std::uint32_t kCompletions = 4;
constexpr int kPolls = 2;  // of the coordinator, a minute each
// For the worker to end; less than a load of weights that hangs.
constexpr std::int64_t kEndMs = 40000;
// As many characters as the tokens of the servers.
constexpr char kCharacters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// A process of this one. fork is not safe next to the threads of gRPC.
class Spawned {
 public:
  Spawned(const std::vector<std::string>& arguments, const std::string& log) {
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
  }

  ~Spawned() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  Spawned(const Spawned&) = delete;
  Spawned& operator=(const Spawned&) = delete;

  // Returns the exit code after SIGTERM, or -1 if it does not end in time or by a signal.
  int Terminate(std::int64_t timeout_ms) {
    ::kill(pid_, SIGTERM);
    int status = 0;
    if (!WaitUntil(timeout_ms, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }))
      return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

class VllmWorkerTest : public ::testing::Test {
 protected:
  using Seen = FakeCoordinator::Seen;

  // Before any thread exists.
  static void SetUpTestSuite() {
    static const TempDir dir;
    model_ = JoinPath(dir.path(), "model");
    ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "new-model", "--out", model_, "--characters",
                        kCharacters, "--layers", "1", "--hidden", "32", "--heads", "2",
                        "--intermediate", "64"},
                       JoinPath(dir.path(), "log"), 60000),
              0)
        << TextOf(JoinPath(dir.path(), "log"));
  }

  VllmWorkerTest() {
    publisher_ = *WeightPublisher::Create({.folder = JoinPath(dir_.path(), "weights")});
    Announce(1);
    const std::string out = JoinPath(dir_.path(), "out"), yaml = JoinPath(dir_.path(), "run.yaml");
    EXPECT_TRUE(
        WriteFileAtomic(
            yaml,
            "run:\n  name: servers\n  lease_ms: 3000\n  data: {prompts: none.jsonl}\n"
            "  model: {path: " +
                model_ + "}\n  sampling: {group_size: 4, max_tokens: 8}\n" +
                "  reward: {verifier: countdown}\nlocal:\n  out: " + out +
                "\n  coordinator: {advertise: '" + coordinator_.address() + "'}\n" +
                "  worker:\n    id: w0\n    engine: vllm\n    max_running: 24\n" +
                "    vllm:\n      servers: ['" + a_.url() + "', '" + b_.url() + "']\n" +
                "      idle_ms: 2000\n      revive_ms: 50\n      health_interval_ms: 100\n" +
                "      health_timeout_ms: 5000\n")
            .ok());
    worker_ = std::make_unique<Spawned>(
        std::vector<std::string>{SiblingProgram("rollout_worker"), "--config", yaml}, log());
  }

  std::string log() const { return JoinPath(dir_.path(), "worker.log"); }

  void Announce(std::uint64_t step) {
    const PolicyVersion version = {1, step, ""};
    const std::string bytes(4, static_cast<char>(step));
    const std::string folder = VersionFolder(JoinPath(dir_.path(), "weights"), version);
    coordinator_.Announce(ManifestToProto(PublishTensors(
        *publisher_, version, DivideWeights({{"t", "F32", {1}}}),
        [&](const std::string&) { return std::string_view(bytes); },
        ScriptedVllm::Canaries(folder))));
  }

  // Offers groups that `min_step` or a newer version may sample.
  void Offer(std::uint64_t groups, std::uint64_t min_step) {
    for (std::uint64_t i = 0; i < groups; ++i) {
      v1::Lease lease;
      lease.mutable_ref()->set_group_id(++offered_);
      lease.mutable_ref()->set_lease_epoch(1);
      lease.set_prompt_id("p" + std::to_string(offered_));
      lease.set_source("numbers");
      lease.set_answer("7");
      for (std::uint32_t token = 1; token <= kPromptTokens; ++token)
        lease.add_prompt_token_ids(token);
      lease.set_completions(kCompletions);
      SamplingParams sampling;
      sampling.seed = offered_;
      sampling.max_tokens = 8;
      sampling.stop_token_ids = {0};
      *lease.mutable_sampling() = ToProto(sampling);
      *lease.mutable_min_version() = ToProto(PolicyVersion{1, min_step, ""});
      lease.set_ttl_ms(3000);
      coordinator_.Offer(lease);
    }
  }

  bool WaitForAccepted(std::size_t groups) {
    for (int poll = 0; poll < kPolls; ++poll) {
      if (coordinator_.WaitUntil([&](const Seen& seen) { return seen.accepted.size() >= groups; }))
        return true;
    }
    return false;
  }

  // Expects that each offered group was accepted, with the tokens that the versions of its segments
  // give, and that none was returned.
  void ExpectAllGroups() {
    ASSERT_TRUE(WaitForAccepted(offered_)) << TextOf(log());
    const Seen seen = coordinator_.seen();
    EXPECT_TRUE(seen.returned.empty()) << TextOf(log());
    for (const auto& [lease, group] : seen.accepted) {
      ASSERT_EQ(Completions(group.head()), static_cast<int>(kCompletions));
      for (int i = 0; i < Completions(group.head()); ++i) ExpectTokensOfSegments(group, i);
    }
  }

  void ExpectTokensOfSegments(const v1::Group& group, int i) {
    std::vector<std::int32_t> expected;
    for (const auto& [sampled, version] : VersionSpansOf(group, i)) {
      const auto tokens =
          ScriptedVllm::Tokens(VersionFolder(JoinPath(dir_.path(), "weights"),
                                             *FromProto(group.head().versions(version))),
                               kPromptTokens + static_cast<std::size_t>(sampled.begin),
                               kPromptTokens + static_cast<std::size_t>(sampled.end));
      expected.insert(expected.end(), tokens.begin(), tokens.end());
    }
    EXPECT_THAT(TokensOf(group, i), ::testing::ElementsAreArray(expected));
  }

  static inline std::string model_;
  TempDir dir_;
  FakeCoordinator coordinator_;
  ScriptedVllm a_;
  ScriptedVllm b_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::uint64_t offered_ = 0;
  std::unique_ptr<Spawned> worker_;
};

TEST_F(VllmWorkerTest, OneServerDies) {
  Offer(4, 1);
  ASSERT_TRUE(WaitForAccepted(4)) << TextOf(log());
  Offer(12, 1);
  a_.Stop();
  Announce(2);
  Offer(4, 2);
  ExpectAllGroups();
  EXPECT_EQ(worker_->Terminate(kEndMs), 0) << TextOf(log());
}

TEST_F(VllmWorkerTest, OneServerAcceptsRequestsAndNeverAnswers) {
  Offer(4, 1);
  ASSERT_TRUE(WaitForAccepted(4)) << TextOf(log());
  a_.HangCompletions(true);
  Offer(12, 1);
  ExpectAllGroups();
  Announce(2);
  Offer(4, 2);
  ExpectAllGroups();
  EXPECT_EQ(worker_->Terminate(kEndMs), 0) << TextOf(log());
}

TEST_F(VllmWorkerTest, OneServerIsSlow) {
  Offer(4, 1);
  ASSERT_TRUE(WaitForAccepted(4)) << TextOf(log());
  a_.Drip(1500);
  Offer(40, 1);
  ExpectAllGroups();
  // The completions that the slow server had begun continued at the other one.
  EXPECT_GT(a_.completions().size() + b_.completions().size(), offered_ * kCompletions);
  EXPECT_EQ(worker_->Terminate(kEndMs), 0) << TextOf(log());
}

TEST_F(VllmWorkerTest, OneServerRestartsWithTheStartWeights) {
  for (std::uint64_t step = 2; step <= 4; ++step) {
    Offer(6, step - 1);
    a_.Stop();
    Announce(step);
    // A restart takes longer than the wait between two health checks.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    a_.Restart();
    Offer(6, step);
    ExpectAllGroups();
  }
  EXPECT_FALSE(a_.ended());
  EXPECT_EQ(worker_->Terminate(kEndMs), 0) << TextOf(log());
}

TEST_F(VllmWorkerTest, TheEndOfTheWorkerDoesNotWaitForServersThatLoadWeights) {
  Offer(2, 1);
  ASSERT_TRUE(WaitForAccepted(2)) << TextOf(log());
  a_.HangReloads(true);
  b_.HangReloads(true);
  Announce(2);
  ASSERT_TRUE(a_.WaitForHungReload());
  ASSERT_TRUE(b_.WaitForHungReload());
  EXPECT_EQ(worker_->Terminate(kEndMs), 0) << TextOf(log());
}

}  // namespace
}  // namespace buttress::vllm_worker_test
