#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <csignal>
#include <thread>

#include "lib/base/os/file.h"
#include "lib/verify/verifier.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

// Reward functions in the form that users of verl and TRL write.
constexpr std::string_view kFunctions = R"(
import asyncio, os, sys, time

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    print("this must not disturb the protocol")
    if solution_str == "raise":
        raise KeyError("no such thing")
    if solution_str == "none":
        return None
    if solution_str == "nan":
        return float("nan")
    if solution_str == "dict":
        return {"score": 0.25, "acc": True}
    if solution_str == "source":
        return len(data_source) + extra_info["level"]
    if solution_str == "exit":
        os._exit(3)
    if solution_str == "quit":
        sys.exit("enough")
    if solution_str == "sleep":
        time.sleep(1000)
    return 1.0 if solution_str == ground_truth else 0.0

def reward(prompts, completions, answer, **kwargs):
    return [None if c == "none" else float(c == a) + kwargs["bonus"][i]
            for i, (c, a) in enumerate(zip(completions, answer))]

async def reward_async(prompts, completions, **kwargs):
    await asyncio.sleep(0)
    return [0.5 for _ in completions]

def reward_chat(prompts, completions, **kwargs):
    return [float(c[0]["content"] == p[0]["content"]) for p, c in zip(prompts, completions)]

def reward_none(completions, **kwargs):
    return [None for _ in completions]

def reward_ends(completions, **kwargs):
    if "exit" in completions:
        os._exit(3)
    return [1.0 for _ in completions]

def reward_short(completions, **kwargs):
    return [1.0]

def reward_raises(completions, **kwargs):
    raise ValueError("a bug")

def reward_arguments(prompts, completions, completion_ids, level, trainer_state, log_extra,
                     log_metric, factor):
    assert prompts == ["7"] * len(completions), prompts
    assert level == [3] * len(completions), level
    log_metric("mean_length", 2.0)
    log_extra("first", completions)
    return [factor * (len(ids) + trainer_state.global_step / trainer_state.max_steps)
            for ids in completion_ids]

def reward_of_messages(prompts, completions, **columns):
    assert "prompt" not in columns, columns
    return [float(p[-1] == {"role": "user", "content": "7?"} and
                  c == [{"role": "assistant", "content": "7"}])
            for p, c in zip(prompts, completions)]

def reward_of_texts(prompts, completions, **columns):
    return [float(p == "7" and c == "7") for p, c in zip(prompts, completions)]

loop = None

async def compute_score_async(data_source, solution_str, ground_truth, extra_info):
    global loop
    assert loop in (None, asyncio.get_running_loop()), "another loop"
    loop = asyncio.get_running_loop()
    if solution_str == "first":  # is answered only while the second one runs
        loop.both = loop.create_future()
        return await loop.both
    if solution_str == "second":
        loop.both.set_result(0.75)
    if solution_str == "raise":
        raise KeyError("no such thing")
    return {"score": float(solution_str in ground_truth), "acc": extra_info["num_turns"] == 2}

def compute_score_batch(data_sources, solution_strs, ground_truths, extra_infos):
    return [1.0 if s == t else None for s, t in zip(solution_strs, ground_truths)]

kept = []

def process_of(completions, **columns):
    if completions[0] == "grow":
        kept.append(bytearray(64 << 20))
    return [float(os.getpid()) for c in completions]

def orphan_of(completions, **columns):
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.setsid()
        orphan = os.fork()
        if orphan == 0:
            time.sleep(1000)
        os.write(writes, str(orphan).encode())
        os._exit(0)
    os.wait()
    return [float(os.read(reads, 20)) for c in completions]

def same_prompt(prompts, completions, **columns):
    return [float(sum(q == p for q in prompts)) for p in prompts]

def chatty(completions, **columns):
    global calls
    calls = globals().get("calls", 0) + 1
    print("the first line")
    for _ in range(1000):
        print("x" * 1000)
    print("the last line", calls)
    return [1.0 for _ in completions]

def neither(text):
    return 1.0
)";

class PythonRewardTest : public ::testing::Test {
 protected:
  PythonRewardTest() {
    EXPECT_TRUE(WriteFileAtomic(Path(), kFunctions).ok());
    config_.timeout_ms = 60000;
  }

  std::string Path() const { return JoinPath(dir_.path(), "rewards.py"); }

  std::unique_ptr<Verifier> Make(const std::string& function) {
    Result<std::unique_ptr<Verifier>> verifier =
        MakeVerifier("python:" + Path() + ":" + function, config_);
    EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
    return verifier.ok() ? *std::move(verifier) : nullptr;
  }

  static std::vector<Verdict> Score(const Verifier& verifier,
                                    const std::vector<std::string>& responses) {
    std::vector<VerifyRequest> requests;
    for (const std::string& response : responses) {
      requests.push_back({"7", response, "7", R"({"level": 3, "bonus": 0.25})", false});
      requests.back().source = "gsm8k";
    }
    return verifier.VerifyGroup(requests);
  }

  TempDir dir_;
  RewardConfig config_;
};

TEST_F(PythonRewardTest, VerlFunctionsRunUnchangedAndFailuresAreUnscorable) {
  const auto verifier = Make("compute_score");
  ASSERT_NE(verifier, nullptr);
  const auto verdicts = Score(*verifier, {"7", "8", "raise", "none", "nan", "dict", "source"});
  ASSERT_EQ(verdicts.size(), 7U);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kCorrect);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kWrong);
  for (const std::size_t i : {2U, 3U, 4U})
    EXPECT_EQ(verdicts[i].outcome, Outcome::kUnscorable) << i;
  EXPECT_THAT(verdicts[2].unscorable_reason, HasSubstr("KeyError"));
  EXPECT_THAT(verdicts[3].unscorable_reason, HasSubstr("None"));
  EXPECT_THAT(verdicts[4].unscorable_reason, HasSubstr("nan"));
  EXPECT_EQ(verdicts[5].outcome, Outcome::kCorrect);
  EXPECT_EQ(verdicts[5].raw_reward, 0.25);
  EXPECT_EQ(verdicts[6].raw_reward, 8);
}

TEST_F(PythonRewardTest, TrlFunctionsRunUnchanged) {
  const auto verifier = Make("reward");
  ASSERT_NE(verifier, nullptr);
  const auto verdicts = Score(*verifier, {"7", "8", "none"});
  EXPECT_EQ(verdicts[0].raw_reward, 1.25);
  EXPECT_EQ(verdicts[1].raw_reward, 0.25);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kWrong);
  EXPECT_EQ(verdicts[2].outcome, Outcome::kUnscorable);
  EXPECT_EQ(Score(*Make("reward_async"), {"7"})[0].raw_reward, 0.5);
  config_.python.chat = ChatForm::kAlways;
  EXPECT_EQ(Score(*Make("reward_chat"), {"7", "8"})[0].raw_reward, 1);
}

TEST_F(PythonRewardTest, TrlFunctionsGetIdsColumnsStateAndCallables) {
  config_.python.arguments = {{"factor", "2"}};
  const std::vector<std::int32_t> ids = {5, 6, 7};
  VerifyRequest request{"rendered", "7", "7", R"({"level": 3, "prompt": "7"})", false};
  request.token_ids = ids;
  request.step = 4;
  request.steps = 8;
  testing::internal::CaptureStderr();
  const Verdict verdict = Make("reward_arguments")->Verify(request);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(verdict.raw_reward, 7) << verdict.unscorable_reason;
  EXPECT_THAT(log, HasSubstr("I reward reward metric name=mean_length mean=2 calls=1\n"));
  EXPECT_THAT(log, HasSubstr("I reward reward column name=first first=\"7\"\n"));
}

TEST_F(PythonRewardTest, MessagesGoToTrlFunctionsWhereThePromptIsMessages) {
  constexpr std::string_view kChat =
      R"({"prompt": [{"role": "system", "content": "Be brief."},
                     {"role": "user", "content": "7?"}]})";
  const auto reward = [&](const std::string& function, std::string_view row, ChatForm chat) {
    config_.python.chat = chat;
    return Make(function)->Verify({"7", "7", "7", row, false}).raw_reward;
  };
  EXPECT_EQ(reward("reward_of_messages", kChat, ChatForm::kAuto), 1);
  EXPECT_EQ(reward("reward_of_texts", R"({"prompt": "7"})", ChatForm::kAuto), 1);
  EXPECT_EQ(reward("reward_of_texts", kChat, ChatForm::kNever), 1) << "the rendered prompt";
  EXPECT_EQ(reward("reward_of_messages", R"({"prompt": "7?"})", ChatForm::kAlways), 1);
}

TEST_F(PythonRewardTest, NoneOfATrlFunctionIsLeftOutOfASum) {
  const std::string functions = "python:" + Path() + ":";
  const auto sum = [&](const std::string& text, const std::string& response) {
    const auto verifier = MakeVerifier(text, config_);
    EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
    return (*verifier)->Verify({"7", response, "7", R"({"level": 3, "bonus": 0.25})", false});
  };
  const Verdict other = sum(functions + "reward + 0.5 * exact", "none");
  EXPECT_EQ(other.outcome, Outcome::kWrong) << "the first part that applies decides";
  EXPECT_TRUE(other.parts.front().not_applicable);
  const Verdict both = sum("exact + 0.5 * " + functions + "reward", "7");
  EXPECT_EQ(TotalReward(both), 1.625);
  EXPECT_TRUE(sum(functions + "reward + " + functions + "reward_none", "none").not_applicable);
}

TEST_F(PythonRewardTest, AwaitedFunctionsRunTogetherOnOneLoop) {
  const auto verifier = Make("compute_score_async");
  ASSERT_NE(verifier, nullptr);
  const auto score = [&](const std::vector<std::string>& responses) {
    std::vector<VerifyRequest> requests;
    for (const std::string& response : responses)
      requests.push_back({"7", response, R"({"7":"seven"})",
                          R"({"reward_model": {"ground_truth": {"7": "seven"}}})", false});
    return verifier->VerifyGroup(requests);
  };
  const auto verdicts = score({"first", "second", "raise", "7"});
  EXPECT_EQ(verdicts[0].raw_reward, 0.75) << verdicts[0].unscorable_reason;
  EXPECT_EQ(verdicts[2].outcome, Outcome::kUnscorable);
  EXPECT_EQ(verdicts[3].raw_reward, 1) << verdicts[3].unscorable_reason;
  const Verdict later = score({"seven"})[0];
  EXPECT_EQ(later.outcome, Outcome::kCorrect) << "on the same loop: " << later.unscorable_reason;
  EXPECT_EQ(later.raw_reward, 0) << "the truth is an object, whose key is 7";
}

TEST_F(PythonRewardTest, VerlFunctionsOfABatchRunUnchanged) {
  const auto verdicts = Score(*Make("compute_score_batch"), {"7", "8"});
  EXPECT_EQ(verdicts[0].raw_reward, 1);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kUnscorable);
}

TEST_F(PythonRewardTest, AProcessIsReplacedAfterItsBatchesAndNoVerdictIsLost) {
  config_.correct_from = 0;
  config_.python.restart_after = 2;
  config_.timeout_ms = 20000;
  const auto verifier = Make("process_of");
  std::vector<double> processes;
  for (int i = 0; i < 5; ++i) {
    const Verdict verdict = Score(*verifier, {"7"})[0];
    EXPECT_EQ(verdict.outcome, Outcome::kCorrect) << verdict.unscorable_reason;
    processes.push_back(verdict.raw_reward);
  }
  EXPECT_EQ(processes[0], processes[1]);
  EXPECT_NE(processes[1], processes[2]);
  EXPECT_EQ(processes[2], processes[3]);
  EXPECT_NE(processes[3], processes[4]);
}

TEST_F(PythonRewardTest, AProcessThatGrowsIsReplacedAfterItsBatch) {
  config_.correct_from = 0;
  config_.python.memory_mb = 60;
  const auto verifier = Make("process_of");
  const auto process = [&](const std::string& response) {
    const Verdict verdict = Score(*verifier, {response})[0];
    EXPECT_EQ(verdict.outcome, Outcome::kCorrect) << verdict.unscorable_reason;
    return verdict.raw_reward;
  };
  const double first = process("7");
  EXPECT_EQ(process("7"), first);
  EXPECT_EQ(process("grow"), first);
  EXPECT_NE(process("7"), first);
}

TEST_F(PythonRewardTest, ABatchThatFailsIsUnscorableWithTheReason) {
  for (const Verdict& verdict : Score(*Make("reward_raises"), {"7", "8"}))
    EXPECT_EQ(verdict.unscorable_reason, "ValueError: a bug");
  for (const Verdict& verdict : Score(*Make("reward_short"), {"7", "8"}))
    EXPECT_THAT(verdict.unscorable_reason, HasSubstr("1 rewards for 2"));
}

TEST_F(PythonRewardTest, TheFirstExceptionOfEachKindIsWrittenWithItsTraceback) {
  testing::internal::CaptureStderr();
  const auto verifier = Make("reward_raises");
  Score(*verifier, {"7", "8"});
  Score(*verifier, {"9"});
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string line = "Z E reward reward function raised ValueError: a bug\n";
  EXPECT_THAT(log, HasSubstr(line + "Traceback"));
  EXPECT_THAT(log, HasSubstr("in reward_raises"));
  EXPECT_EQ(log.find(line), log.rfind(line)) << "written once";
}

TEST_F(PythonRewardTest, ACompletionThatEndsTheFunctionIsUnscorableAlone) {
  const auto verifier = Make("compute_score");
  const auto verdicts = Score(*verifier, {"7", "exit", "quit", "8"});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kCorrect) << verdicts[0].unscorable_reason;
  EXPECT_THAT(verdicts[1].unscorable_reason, HasSubstr("has ended"));
  EXPECT_EQ(verdicts[2].unscorable_reason, "SystemExit: enough");
  EXPECT_EQ(verdicts[3].outcome, Outcome::kWrong) << verdicts[3].unscorable_reason;
}

TEST_F(PythonRewardTest, ACompletionThatIsTooSlowIsUnscorableAlone) {
  config_.timeout_ms = 2000;
  const auto verifier = Make("compute_score");
  const auto verdicts = Score(*verifier, {"7", "sleep", "8"});
  EXPECT_EQ(verdicts[0].outcome, Outcome::kCorrect) << verdicts[0].unscorable_reason;
  EXPECT_EQ(verdicts[1].unscorable_reason,
            "timeout: scoring took longer than run.reward.timeout_ms = 2000; raise it");
  EXPECT_EQ(verdicts[2].outcome, Outcome::kWrong) << verdicts[2].unscorable_reason;
}

TEST_F(PythonRewardTest, TheRestIsUnscorableWhereManyCompletionsFail) {
  const auto verifier = Make("compute_score");
  const auto verdicts = Score(*verifier, {"exit", "exit", "7", "exit", "exit", "7"});
  EXPECT_EQ(verdicts[2].outcome, Outcome::kCorrect) << verdicts[2].unscorable_reason;
  EXPECT_EQ(verdicts[5].outcome, Outcome::kUnscorable);
}

// It may have compared them.
TEST_F(PythonRewardTest, AGroupThatEndsAFunctionOfAllCompletionsIsUnscorable) {
  const auto verifier = Make("reward_ends");
  for (const Verdict& verdict : Score(*verifier, {"7", "exit"}))
    EXPECT_THAT(verdict.unscorable_reason, HasSubstr("has ended"));
  EXPECT_EQ(Score(*verifier, {"7"})[0].outcome, Outcome::kCorrect);
}

// Also one in a session of its own, whose parent has ended.
TEST_F(PythonRewardTest, EveryProcessThatAFunctionHasStartedEndsWithIt) {
  config_.correct_from = 0;
  auto verifier = Make("orphan_of");
  const Verdict verdict = Score(*verifier, {"7"})[0];
  ASSERT_EQ(verdict.outcome, Outcome::kCorrect) << verdict.unscorable_reason;
  const auto orphan = static_cast<pid_t>(verdict.raw_reward);
  EXPECT_EQ(::kill(orphan, 0), 0);
  verifier.reset();
  EXPECT_NE(::kill(orphan, 0), 0);
}

TEST_F(PythonRewardTest, SeveralThreadsShareTheProcesses) {
  config_.python.workers = 2;
  const auto verifier = Make("compute_score");
  std::vector<std::jthread> threads;
  std::vector<Outcome> outcomes(6, Outcome::kUnspecified);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    threads.emplace_back(
        [&, i] { outcomes[i] = Score(*verifier, {i % 2 == 0 ? "7" : "8"})[0].outcome; });
  }
  threads.clear();
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    EXPECT_EQ(outcomes[i], i % 2 == 0 ? Outcome::kCorrect : Outcome::kWrong);
}

TEST_F(PythonRewardTest, AFunctionComparesTheCompletionsOfItsPrompt) {
  EXPECT_TRUE(Make("same_prompt")->whole_groups());
  for (const Verdict& verdict : Score(*Make("same_prompt"), std::vector<std::string>(8, "7")))
    EXPECT_EQ(verdict.raw_reward, 8);
  const std::string sum = "exact + 0.5 * python:" + Path() + ":same_prompt";
  const auto verifier = MakeVerifier(sum, config_);
  ASSERT_TRUE(verifier.ok());
  EXPECT_TRUE((*verifier)->whole_groups());
  for (const Verdict& verdict : Score(**verifier, {"7", "8", "7"}))
    EXPECT_EQ(TotalReward(verdict), verdict.raw_reward + 1.5);
}

TEST_F(PythonRewardTest, OutputIsKeptInAFileUpToABound) {
  constexpr std::size_t kBound = 1 << 20;
  config_.python.output = JoinPath(dir_.path(), "rewards");
  testing::internal::CaptureStderr();
  auto verifier = Make("chatty");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Score(*verifier, {"7"})[0].raw_reward, 1);
  verifier.reset();  // and with it the process that writes the output
  const std::string log = testing::internal::GetCapturedStderr();
  const auto first = ReadFile(JoinPath(config_.python.output, "rewards.chatty.log"));
  const auto newest = ReadFile(JoinPath(config_.python.output, "rewards.chatty.newest.log"));
  ASSERT_TRUE(first.ok() && newest.ok()) << log;
  EXPECT_TRUE(first->starts_with("the first line\n"));
  EXPECT_GE(first->size(), kBound);
  EXPECT_LT(first->size(), 2 * kBound);
  EXPECT_GE(newest->size(), kBound);
  EXPECT_LE(newest->size(), 2 * kBound);
  EXPECT_TRUE(newest->ends_with("the last line 5\n")) << newest->substr(newest->size() - 100);
  EXPECT_EQ(log.find("of what a reward function printed"),
            log.rfind("of what a reward function printed"))
      << "said once";
  EXPECT_THAT(log, HasSubstr("rewards.chatty.newest.log"));
  EXPECT_LT(log.size(), 1000U) << log.substr(0, 3000);
}

TEST_F(PythonRewardTest, WithoutAFileOutputGoesToTheErrorStreamUpToABound) {
  testing::internal::CaptureStderr();
  auto verifier = Make("chatty");
  for (int i = 0; i < 2; ++i) Score(*verifier, {"7"});
  verifier.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(log.starts_with("the first line\n"));
  EXPECT_THAT(log, HasSubstr("has printed 1048576 bytes; more is dropped\n"));
  EXPECT_LT(log.size(), std::size_t{2} << 20);
}

TEST_F(PythonRewardTest, AnUnusableFileIsAnErrorAtStart) {
  const auto error = [&](const std::string& name) {
    return MakeVerifier(name, config_).status().message();
  };
  const auto error_of = [&](const std::string& source) {
    EXPECT_TRUE(WriteFileAtomic(JoinPath(dir_.path(), "broken.py"), source).ok());
    return error("python:" + JoinPath(dir_.path(), "broken.py") + ":f");
  };
  EXPECT_THAT(error("python:" + Path() + ":no_such"),
              HasSubstr("no function 'no_such'; the file has compute_score, reward, "));
  EXPECT_THAT(error("python:" + Path() + ":neither"),
              HasSubstr("parameters text are neither verl's"));
  EXPECT_THAT(error("python:/no/such/file.py:f"), HasSubstr("/no/such/file.py"));
  EXPECT_THAT(error("python:rewards.py"), HasSubstr("expected python:FILE:FUNCTION"));
  EXPECT_THAT(error_of("x = 1\ndef f(:\n"),
              HasSubstr("SyntaxError: invalid syntax (broken.py, line 2)"));
  EXPECT_THAT(error_of("x = 1\nimport no_such_module\n"),
              HasSubstr("No module named 'no_such_module' (broken.py, line 2)"));
  config_.python.start_ms = 200;
  EXPECT_THAT(error_of("import time\ntime.sleep(1000)\n"),
              HasSubstr("the import takes longer than run.reward.python.start_ms = 200"));
  config_.python.interpreter = "no-such-python";
  const Status missing = MakeVerifier("python:" + Path() + ":reward", config_).status();
  EXPECT_THAT(missing.message(), HasSubstr("no program 'no-such-python'"));
  EXPECT_THAT(missing.message(), HasSubstr("run.reward.python.interpreter"));
  EXPECT_EQ(ExitCode(missing), 2);
}

TEST_F(PythonRewardTest, AFolderMayHaveSpacesAndSigns) {
  const std::string folder = JoinPath(dir_.path(), "a b - c + d*e");
  ASSERT_TRUE(MakeFolders(folder).ok());
  ASSERT_TRUE(WriteFileAtomic(JoinPath(folder, "my rewards.py"), kFunctions).ok());
  const auto verifier =
      MakeVerifier("0.5 * python:" + folder + "/my rewards.py:same_prompt - 2 * exact", config_);
  ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
  const Verdict verdict = Score(**verifier, {"7", "8"})[1];
  EXPECT_EQ(TotalReward(verdict), 1) << verdict.unscorable_reason;
  EXPECT_EQ(verdict.parts[0].name, "python:my rewards.py:same_prompt");
}

}  // namespace
}  // namespace buttress
