// Servers that die, hang, are slow or restart: what it costs.
#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kIdleMs = 1000;

class VllmLossTest : public ::testing::Test {
 protected:
  void Start() {
    config_ = ConfigOf({a_.url(), b_.url()});
    config_.idle_ms = kIdleMs;
    engine_ = StartEngine(config_);
    ASSERT_TRUE(UpdateAll(*engine_, ManifestOf(1)));
  }

  // Submits samples and expects that all are completed, with the tokens of their versions.
  void Complete(std::int32_t samples) {
    for (std::int32_t i = 0; i < samples; ++i) ASSERT_TRUE(engine_->Submit(RequestOf(i)).ok());
    for (const EngineResult& result : PollFor(*engine_, static_cast<std::size_t>(samples))) {
      EXPECT_TRUE(result.status.ok()) << result.status.ToString();
      EXPECT_EQ(result.segments.at(0).version, ManifestOf(1).version);
      ExpectTokensOfSegments(result);
    }
  }

  ServerState StateOf(std::size_t server) const { return engine_->stats().servers.at(server); }

  ScriptedVllm a_;
  ScriptedVllm b_;
  VllmConfig config_;
  std::unique_ptr<InferenceEngine> engine_;
};

TEST_F(VllmLossTest, TheTokensBeforeABrokenConnectionAreKeptOnAnotherServer) {
  ASSERT_NO_FATAL_FAILURE(Start());
  a_.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine_->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(WaitUntil([&] { return StateOf(0).tokens == 2; }));
  a_.Stop();
  const EngineResult completion = PollFor(*engine_, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(1).version}}));
  ExpectTokensOfSegments(completion);
  EXPECT_EQ(b_.completions().at(0)["prompt"].size(), 5U);
  EXPECT_EQ(b_.completions().at(0)["max_tokens"], 14);
  EXPECT_EQ(StateOf(0).losses, 1);
}

TEST_F(VllmLossTest, UnfinishedSamplesAreReportedAndContinuedByAnotherEngine) {
  ASSERT_NO_FATAL_FAILURE(Start());
  b_.Stop();
  ASSERT_TRUE(WaitForServers(*engine_, {{a_.url(), true, true}, {b_.url(), false, false}}));
  a_.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine_->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(WaitUntil([&] { return StateOf(0).tokens == 2; }));
  const std::vector<EngineResult> unfinished = engine_->Unfinished();
  ASSERT_EQ(unfinished.size(), 1U);
  ASSERT_EQ(unfinished[0].token_ids.size(), 2U);
  engine_->Cancel(unfinished[0].id);
  EXPECT_EQ(PollFor(*engine_, 1)[0].finish_reason, FinishReason::kAbort);

  SampleRequest request = RequestOf(1);
  request.begun =
      PartFrom(1, 0, unfinished[0].token_ids, unfinished[0].logprobs, unfinished[0].segments);
  ASSERT_TRUE(engine_->Submit(request).ok());
  const EngineResult completion = PollFor(*engine_, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(1).version}}));
  ExpectTokensOfSegments(completion);
  EXPECT_EQ(a_.completions().back()["prompt"].size(), 5U);
  EXPECT_EQ(a_.completions().back()["max_tokens"], 14);
}

TEST_F(VllmLossTest, AnAttemptThatBreaksTheProtocolLosesItsOwnTokensOnly) {
  ASSERT_NO_FATAL_FAILURE(Start());
  b_.Stop();
  ASSERT_TRUE(WaitForServers(*engine_, {{a_.url(), true, true}, {b_.url(), false, false}}));
  a_.Fail({Fault::kErrorEvent, Fault::kWrongUsage});
  Complete(1);
  const auto bodies = a_.completions();
  ASSERT_EQ(bodies.size(), 3U);
  EXPECT_EQ(bodies[1]["prompt"].size(), 5U);
  EXPECT_EQ(bodies[2]["prompt"].size(), 5U);
}

TEST_F(VllmLossTest, ASampleNeverContinuesUnderOlderWeights) {
  ASSERT_NO_FATAL_FAILURE(Start());
  b_.HangReloads(true);
  ASSERT_TRUE(engine_->UpdateWeights(ManifestOf(2)).ok());
  ASSERT_TRUE(b_.WaitForHungReload());
  a_.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine_->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(WaitUntil([&] { return StateOf(0).tokens == 2; }));
  b_.FailReloads(1);
  b_.HangReloads(false);  // the load fails, and the server still has the first version
  a_.Stop();
  const EngineResult result = PollFor(*engine_, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.segments, (std::vector<Segment>{{0, ManifestOf(2).version}}));
  ExpectTokensOfSegments(result);
  EXPECT_EQ(b_.completions().back()["prompt"].size(), 5U);
}

TEST_F(VllmLossTest, ASampleIsNotTakenByAServerThatIsOlderThanItsLeaseAllows) {
  ASSERT_NO_FATAL_FAILURE(Start());
  b_.HangReloads(true);
  ASSERT_TRUE(engine_->UpdateWeights(ManifestOf(2)).ok());
  for (std::int32_t i = 0; i < 6; ++i) {
    SampleRequest request = RequestOf(i);
    request.min_version = ManifestOf(2).version;
    ASSERT_TRUE(engine_->Submit(request).ok());
  }
  for (const EngineResult& result : PollFor(*engine_, 6)) {
    EXPECT_EQ(result.segments, (std::vector<Segment>{{0, ManifestOf(2).version}}));
    ExpectTokensOfSegments(result);
  }
  EXPECT_TRUE(b_.completions().empty());
}

TEST_F(VllmLossTest, ADeadServerCostsOnlyTheTimeOfItsSamples) {
  ASSERT_NO_FATAL_FAILURE(Start());
  a_.Fail(std::vector<Fault>(4, Fault::kStallMidway));
  for (std::int32_t i = 100; i < 104; ++i) ASSERT_TRUE(engine_->Submit(RequestOf(i)).ok());
  ASSERT_TRUE(a_.WaitForCompletions(2));
  a_.Stop();
  PollFor(*engine_, 4);
  Complete(20);
  EXPECT_FALSE(StateOf(0).serving);
  EXPECT_TRUE(engine_->stats().available);
}

TEST_F(VllmLossTest, AServerThatHangsLosesItsSamplesToTheOther) {
  ASSERT_NO_FATAL_FAILURE(Start());
  a_.HangCompletions(true);
  Complete(20);
  EXPECT_TRUE(StateOf(0).healthy);
  EXPECT_FALSE(StateOf(0).serving);
  EXPECT_EQ(StateOf(0).completions, 0);
  a_.HangCompletions(false);
  EXPECT_TRUE(WaitForServers(*engine_, {{a_.url(), true, true}, {b_.url(), true, true}}));
  EXPECT_EQ(Reloads(a_), 2);
}

TEST_F(VllmLossTest, ASlowServerLosesItsSamplesToTheOtherWithTheirTokens) {
  ASSERT_NO_FATAL_FAILURE(Start());
  a_.Drip(200);
  std::int32_t submitted = 0;
  const auto continues = [&] {
    while (engine_->stats().running + engine_->stats().waiting < 8)
      EXPECT_TRUE(engine_->Submit(RequestOf(submitted++)).ok());
    for (const EngineResult& result : engine_->Poll(std::chrono::milliseconds(20)))
      ExpectTokensOfSegments(result);
    return std::ranges::any_of(b_.completions(),
                               [](const auto& body) { return body["prompt"].size() > 3; });
  };
  EXPECT_TRUE(WaitUntil(continues));
  const ServerState a = StateOf(0);
  EXPECT_TRUE(a.healthy);
  EXPECT_FALSE(a.serving);
  EXPECT_EQ(a.losses, 1);
}

TEST_F(VllmLossTest, ARestartedServerServesNoTokenBeforeItHasTheNewestWeights) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (int restart = 1; restart <= 3; ++restart) {
    a_.Stop();
    ASSERT_TRUE(WaitForServers(*engine_, {{a_.url(), false, false}, {b_.url(), true, true}}));
    a_.Restart();
    Complete(20);
    ASSERT_TRUE(WaitForServers(*engine_, {{a_.url(), true, true}, {b_.url(), true, true}}));
    EXPECT_EQ(a_.weights(), ManifestOf(1).folder);
    EXPECT_EQ(StateOf(0).restarts, restart);
    EXPECT_EQ(StateOf(0).losses, restart);
  }
}

TEST_F(VllmLossTest, WithoutAServerSamplesAreGivenBackWithoutFault) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.first_byte_ms = 500;
  const auto engine = StartEngine(config);
  EXPECT_TRUE(engine->stats().available);
  server.Stop();
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_EQ(result.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(result.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(result.status.message(), HasSubstr("no vLLM server serves"));
  EXPECT_FALSE(engine->stats().available);
  server.Restart();
  EXPECT_TRUE(WaitUntil([&] { return engine->stats().available; }));
}

TEST_F(VllmLossTest, SamplesWaitWithTheirTokensForAServerThatTheRunStartsAgain) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.first_byte_ms = 500;
  config.launch.binary = "vllm";
  const auto engine = StartEngine(config);
  server.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(WaitUntil([&] { return engine->stats().servers[0].tokens == 2; }));
  server.Stop();
  EXPECT_TRUE(engine->Poll(std::chrono::milliseconds(1000)).empty());
  server.Restart();
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(server.completions().back()["prompt"].size(), 3u + 2u);
}

}  // namespace
}  // namespace buttress
