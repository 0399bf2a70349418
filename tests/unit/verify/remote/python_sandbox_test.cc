// Reward functions that execute what the model wrote, in the sandbox (run.reward.python.sandbox).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/verify/verifier.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kExecuting = R"(
calls = 0

def executed(data_source, solution_str, ground_truth, extra_info=None):
    global calls
    calls += 1
    names = {}
    try:
        exec(solution_str, names)
    except Exception as error:
        print(type(error).__name__)
        return 0.25
    return float(names.get("answer") == 42)

def count(completions, **columns):
    global calls
    calls += 1
    for text in completions:
        exec(text)
    return [float(calls) for _ in completions]
)";

class PythonSandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In the sandbox a worker that is root is another user, who must be able to read the functions.
    std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
    ASSERT_TRUE(WriteFileAtomic(JoinPath(dir_.path(), "rewards.py"), kExecuting).ok());
    config_.timeout_ms = 30000;
    config_.python.sandbox = true;
    config_.python.interpreter = "/usr/bin/python3";
  }

  std::unique_ptr<Verifier> Make(const std::string& function) {
    Result<std::unique_ptr<Verifier>> verifier =
        MakeVerifier("python:" + JoinPath(dir_.path(), "rewards.py") + ":" + function, config_);
    EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
    return verifier.ok() ? *std::move(verifier) : nullptr;
  }

  static std::vector<Verdict> Score(const Verifier& verifier,
                                    const std::vector<std::string>& responses) {
    std::vector<VerifyRequest> requests;
    for (const std::string& response : responses)
      requests.push_back({"7", response, "42", "{}", false});
    return verifier.VerifyGroup(requests);
  }

  TempDir dir_;
  RewardConfig config_;
};

// Returns the port of a socket that listens on 127.0.0.1.
int Listen(const OwnedFd& server) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(server.get(), generic, size), 0);
  EXPECT_EQ(::listen(server.get(), 1), 0);
  EXPECT_EQ(::getsockname(server.get(), generic, &size), 0);
  return ntohs(address.sin_port);
}

TEST_F(PythonSandboxTest, AFunctionThatNeedsSharedMemoryIsToldWhyItFails) {
  constexpr std::string_view kShares = R"(
import multiprocessing

def shared(data_source, solution_str, ground_truth, extra_info=None):
    return float(multiprocessing.Value("d", 1.0).value)
)";
  ASSERT_TRUE(WriteFileAtomic(JoinPath(dir_.path(), "rewards.py"), kShares).ok());
  const auto verifier = Make("shared");
  ASSERT_NE(verifier, nullptr);
  const std::vector<Verdict> verdicts = Score(*verifier, {"x"});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kUnscorable);
  EXPECT_THAT(verdicts[0].unscorable_reason, HasSubstr("the sandbox has no shared memory"));
  EXPECT_THAT(verdicts[0].unscorable_reason, HasSubstr("run.reward.python.sandbox: false"));
}

TEST_F(PythonSandboxTest, WhatTheModelWroteReachesNothingAndItsNeighboursKeepTheirRewards) {
  const OwnedFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string port = std::to_string(Listen(server));
  const std::string file = JoinPath(dir_.path(), "written");
  const auto verifier = Make("executed");
  ASSERT_NE(verifier, nullptr);
  const std::vector<std::string> programs = {
      "answer = 42",
      "open('" + file + "', 'w')\nanswer = 42",
      "import socket\nsocket.create_connection(('127.0.0.1', " + port + "), 5)\nanswer = 42",
      "import os\nos.kill(os.getppid(), 9)\nwhile True: pass",
      "kept = []\nwhile True: kept.append(bytearray(1 << 24))",
      "import os, time\n"
      "for _ in range(8):\n  if os.fork() == 0:\n    held = b'x' * (200 << 20)\n"
      "    time.sleep(1000)\ntime.sleep(1000)",
      "answer = 42",
  };
  const auto verdicts = Score(*verifier, programs);
  ASSERT_EQ(verdicts.size(), programs.size());
  for (const std::size_t i : {0U, 6U}) {
    EXPECT_EQ(verdicts[i].outcome, Outcome::kCorrect) << verdicts[i].unscorable_reason;
    EXPECT_EQ(verdicts[i].raw_reward, 1);
  }
  for (const std::size_t i : {1U, 2U, 4U}) {  // an exception, which the function scores
    EXPECT_EQ(verdicts[i].raw_reward, 0.25) << i << verdicts[i].unscorable_reason;
    EXPECT_EQ(verdicts[i].outcome, Outcome::kWrong) << i;
  }
  EXPECT_THAT(verdicts[3].unscorable_reason, HasSubstr("has ended"));
  EXPECT_THAT(verdicts[5].unscorable_reason, HasSubstr("more than 512 MiB of memory"));
  EXPECT_FALSE(std::filesystem::exists(file));
  pollfd connected{server.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&connected, 1, 0), 0);
}

TEST_F(PythonSandboxTest, OneProcessScoresGroupAfterGroupUnlessItWorksOn) {
  const auto verifier = Make("count");
  ASSERT_NE(verifier, nullptr);
  EXPECT_EQ(Score(*verifier, {"pass"})[0].raw_reward, 1);
  EXPECT_EQ(Score(*verifier, {"pass"})[0].raw_reward, 2);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_EQ(Score(*verifier, {"import os\nif os.fork() == 0:\n  while True: pass"})[0].raw_reward,
            3);
  // Work is CPU time, which a busy machine gives slowly, and counts from the last answer on.
  std::optional<double> reward;
  for (int seconds = 2; seconds <= 32 && reward != 1.0; seconds *= 2) {
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    reward = Score(*verifier, {"pass"})[0].raw_reward;
  }
  EXPECT_EQ(reward, 1.0);  // of another process
}

TEST_F(PythonSandboxTest, AProcessWhoseThreadHasEndedIsReplacedWithoutALoss) {
  const auto verifier = Make("count");
  ASSERT_NE(verifier, nullptr);
  EXPECT_EQ(Score(*verifier, {"import os; os._exit(3)"})[0].outcome, Outcome::kUnscorable);
  std::thread([&] { EXPECT_EQ(Score(*verifier, {"pass"})[0].raw_reward, 1); }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(Score(*verifier, {"pass"})[0].raw_reward, 1);
}

TEST_F(PythonSandboxTest, WhatItPrintsIsInItsFileUpToABound) {
  config_.python.output = JoinPath(dir_.path(), "output");
  const auto verifier = Make("count");
  ASSERT_NE(verifier, nullptr);
  for (const char* program : {"print('the first line')", "for _ in range(4096): print('x' * 1024)",
                              "import time; time.sleep(0.2)"}) {
    EXPECT_EQ(Score(*verifier, {program})[0].outcome, Outcome::kCorrect);
  }
  const auto text = ReadFile(JoinPath(config_.python.output, "rewards.count.log"));
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, HasSubstr("the first line\nx"));
  EXPECT_LE(text->size(), std::size_t{1} << 21);
}

TEST_F(PythonSandboxTest, AnInterpreterThatTheSandboxDoesNotShowIsRefused) {
  config_.python.interpreter = JoinPath(dir_.path(), "python3");
  std::filesystem::create_symlink("/usr/bin/python3", config_.python.interpreter);
  const auto verifier = MakeVerifier("python:/usr/share/rewards.py:count", config_);
  EXPECT_EQ(verifier.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(verifier.status().message(), HasSubstr("is not below /usr, which the sandbox shows"));
  config_.code.read_only = {dir_.path()};
  EXPECT_EQ(Score(*Make("count"), {"pass"})[0].raw_reward, 1);
}

}  // namespace
}  // namespace buttress
