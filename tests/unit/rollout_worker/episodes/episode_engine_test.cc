#include "rollout_worker/episodes/episode_engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "tests/support/chat_tokenizer.h"
#include "tests/support/fakes/scripted_policy.h"
#include "tests/support/patience.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Counts: says "n+1?" until the policy says "stop", or for the number of turns in the row.
class Counting : public Environment {
 public:
  explicit Counting(std::string row) : row_(std::move(row)) {}

  ordered_json messages() const override {
    return ordered_json::array({{{"role", "user"}, {"content", "count"}}});
  }

  Result<EnvironmentReply> Reply(const AssistantMessage& answer, std::int64_t) override {
    if (row_ == "broken") return Unavailable("the environment broke");
    if (row_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EnvironmentReply reply;
    reply.turn_reward = 0.25;
    if (answer.content == "stop") {
      if (row_ == "rewarded") reply.reward = 2;
      return reply;
    }
    reply.messages.push_back({{"role", "user"}, {"content", std::to_string(++turns_) + "?"}});
    return reply;
  }

 private:
  const std::string row_;
  int turns_ = 0;
};

class CountingFactory : public EnvironmentFactory {
 public:
  Result<std::unique_ptr<Environment>> Make(const EpisodeTask& task, std::uint64_t) const override {
    if (task.row_json == "unfit") return InvalidArgument("the row does not fit");
    return std::unique_ptr<Environment>(std::make_unique<Counting>(task.row_json));
  }
};

class EpisodeEngineTest : public ::testing::Test {
 protected:
  EpisodeEngineTest() : tokenizer_(TokenizerOfFamily("qwen2_5")) {
    run_.env.kind = EnvKind::kBuiltin;
    run_.env.timeout_ms = kPatience.count();
  }

  void Start(std::size_t running = 8) {
    auto policy = std::make_unique<ScriptedPolicy>(
        *tokenizer_, [](const std::string& prompt, std::uint64_t seed) {
          if (prompt.find("2?") != std::string::npos) return std::string("stop");
          return "go " + std::to_string(seed % 1000);
        });
    policy_ = policy.get();
    auto codec = EpisodeCodec::Create(run_, *tokenizer_);
    ASSERT_TRUE(codec.ok()) << codec.status().ToString();
    engine_ = MakeEpisodeEngine(std::move(policy), *std::move(codec),
                                MakeBuiltinRunner(std::make_unique<CountingFactory>(), 1), running);
  }

  void Submit(std::int32_t index, const std::string& row = "") {
    SampleRequest request;
    request.id = {5, 1, index};
    request.sampling.seed = static_cast<std::uint64_t>(index);
    request.sampling.stop_token_ids = {tokenizer_->AddedTokenId("<|im_end|>")};
    request.task = std::make_shared<EpisodeTask>(EpisodeTask{"", "", row, ""});
    ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  }

  std::vector<EngineResult> Poll(std::size_t count) {
    std::vector<EngineResult> results;
    for (int i = 0; i < 200 && results.size() < count; ++i) {
      for (EngineResult& result : engine_->Poll(std::chrono::milliseconds(50)))
        results.push_back(std::move(result));
    }
    EXPECT_THAT(results, SizeIs(count));
    results.resize(count);
    std::ranges::sort(results, {}, &EngineResult::id);
    return results;
  }

  // What is generated and not cut is delivered.
  void ExpectTokens(const std::vector<EngineResult>& delivered) {
    std::int64_t tokens = 0;
    for (const EngineResult& result : delivered) tokens += result.sampled_tokens();
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.generated_tokens - stats.cut_tokens, tokens);
    EXPECT_EQ(stats.running + stats.waiting, 0);
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  RunSettings run_;
  ScriptedPolicy* policy_ = nullptr;
  std::unique_ptr<InferenceEngine> engine_;
};

TEST_F(EpisodeEngineTest, AnEpisodeIsAResultWithAllItsTurns) {
  Start();
  for (int i = 0; i < 20; ++i) Submit(i, i == 3 ? "rewarded" : "");
  const std::vector<EngineResult> results = Poll(20);
  for (const EngineResult& result : results) {
    EXPECT_EQ(result.finish_reason, FinishReason::kStop);
    ASSERT_NE(result.episode, nullptr);
    EXPECT_EQ(result.episode->end, EpisodeEnd::kDone);
    EXPECT_EQ(result.episode->answer, "stop");
    ASSERT_THAT(result.episode->branches, SizeIs(1));
    ASSERT_THAT(result.episode->branches[0].turns, SizeIs(3));
    EXPECT_EQ(result.episode->branches[0].turns[1].reward, 0.25);
    EXPECT_EQ(result.episode->reward.has_value(), result.id.index == 3);
  }
  EXPECT_EQ(results[3].episode->reward, 2);
  ExpectTokens(results);
}

TEST_F(EpisodeEngineTest, AnEpisodeRepeatsBitForBitInAnyCompany) {
  Start();
  Submit(1);
  const auto alone = Poll(1).front().episode->branches[0].token_ids;
  for (int i = 0; i < 12; ++i) Submit(i);
  const std::vector<EngineResult> results = Poll(12);
  EXPECT_EQ(results[1].episode->branches[0].token_ids, alone);
  EXPECT_NE(results[2].episode->branches[0].token_ids, alone);
}

TEST_F(EpisodeEngineTest, MoreEpisodesThanMayRunWait) {
  Start(2);
  policy_->Stall(true);
  for (int i = 0; i < 5; ++i) Submit(i);
  for (int i = 0; i < 200 && policy_->in_flight() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(engine_->stats().running, 2);
  EXPECT_EQ(engine_->stats().waiting, 3);
  engine_->Cancel({5, 1, 4});
  EXPECT_EQ(Poll(1).front().finish_reason, FinishReason::kAbort);
  policy_->Stall(false);
  ExpectTokens(Poll(4));
}

TEST_F(EpisodeEngineTest, TheEngineBelowSleepsOnceNoEpisodeMayAskAgain) {
  Start();
  policy_->Stall(true);
  Submit(0);
  EXPECT_FALSE(engine_->Sleep());
  EXPECT_EQ(policy_->sleeps(), 0);
  policy_->Stall(false);
  Poll(1);
  EXPECT_TRUE(engine_->Sleep());
  EXPECT_EQ(policy_->sleeps(), 1);
}

TEST_F(EpisodeEngineTest, ACancelledEpisodeEndsAtOnceAndItsTokensAreCut) {
  Start();
  Submit(1, "slow");
  for (int i = 0; i < 200 && policy_->asked().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  policy_->Stall(true);  // the first call has its answer, the second one waits
  for (int i = 0; i < 200 && policy_->in_flight() < 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  engine_->Cancel({5, 1, 1});
  const EngineResult result = Poll(1).front();
  EXPECT_EQ(result.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(result.status.code(), StatusCode::kCancelled);
  EXPECT_GT(engine_->stats().cut_tokens, 0);
  ExpectTokens({result});
}

TEST_F(EpisodeEngineTest, AFailureOfTheEngineIsTheSamplesAndNotTheEpisodes) {
  Start();
  policy_->Fail(Unavailable("a broken GPU"));
  Submit(0);
  const EngineResult result = Poll(1).front();
  EXPECT_EQ(result.id, (SampleId{5, 1, 0}));
  EXPECT_EQ(result.finish_reason, FinishReason::kError);
  EXPECT_THAT(result.status.message(), HasSubstr("a broken GPU"));
  EXPECT_EQ(result.episode, nullptr);
  ExpectTokens({result});
}

TEST_F(EpisodeEngineTest, WhatTheEnvironmentDoesWrongCostsItsOwnEpisode) {
  Start();
  Submit(0, "broken");
  Submit(1);
  Submit(2, "unfit");
  const std::vector<EngineResult> results = Poll(3);
  EXPECT_EQ(results[0].episode->end, EpisodeEnd::kFailed);
  EXPECT_EQ(results[0].episode->failure, "the environment broke");
  EXPECT_THAT(results[0].episode->branches, SizeIs(1));
  EXPECT_EQ(results[1].episode->end, EpisodeEnd::kDone);
  EXPECT_EQ(results[2].episode->failure, "the row does not fit");
  EXPECT_THAT(results[2].episode->branches, SizeIs(0));
  ExpectTokens(results);
}

TEST_F(EpisodeEngineTest, TimeAndTurnsAreLimits) {
  run_.env.timeout_ms = 50;
  Start();
  Submit(0, "slow");
  const auto slow = Poll(1).front().episode;
  EXPECT_EQ(slow->end, EpisodeEnd::kTime);
  EXPECT_THAT(slow->failure, HasSubstr("run.env.timeout_ms = 50"));
  policy_->Stall(true);
  Submit(1);
  EXPECT_EQ(Poll(1).front().episode->end, EpisodeEnd::kTime);

  run_.env.timeout_ms = kPatience.count();
  run_.env.max_turns = 2;
  Start();
  Submit(0);
  const auto turns = Poll(1).front().episode;
  EXPECT_EQ(turns->end, EpisodeEnd::kTurns);
  EXPECT_EQ(turns->failure, "");
  EXPECT_THAT(turns->branches[0].turns, SizeIs(2));
}

TEST_F(EpisodeEngineTest, AModelWithoutAChatTemplateHoldsNoChats) {
  const auto plain = TokenizerWithTemplate("");
  EXPECT_THAT(EpisodeCodec::Create(run_, *plain).status().message(), HasSubstr("chat_template"));
  run_.env.kind = EnvKind::kExec;
  EXPECT_TRUE(EpisodeCodec::Create(run_, *plain).ok());
}

}  // namespace
}  // namespace buttress
