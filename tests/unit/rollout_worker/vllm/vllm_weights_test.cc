#include <filesystem>
#include <thread>

#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(VllmWeightsTest, KeptSamplesContinueBehindTheirTokensUnderTheNewWeights) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kHoldUntilPause});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  EXPECT_EQ(engine->version(), ManifestOf(1).version);
  const EngineResult completion = PollFor(*engine, 1)[0];
  ASSERT_FALSE(completion.segments.empty());
  EXPECT_EQ(completion.segments.back().version, ManifestOf(1).version);
  ExpectTokensOfSegments(completion);
  const nlohmann::json again = server.completions().at(1);
  const auto kept = static_cast<std::size_t>(completion.segments.back().first_token);
  EXPECT_EQ(again["prompt"].size(), 3 + kept);
  EXPECT_EQ(again["max_tokens"], 16 - kept);
  EXPECT_EQ(again["cache_salt"], "w1-1");
}

TEST(VllmWeightsTest, ToAbortASampleStartsAgainUnderTheNewWeights) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), false, InFlight::kAbort);
  server.Fail({Fault::kHoldUntilPause});  // after two tokens
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(1).version}}));
  ExpectTokensOfSegments(completion);
  EXPECT_EQ(server.completions().at(1)["prompt"].size(), 3);
  const EngineStats stats = engine->stats();
  EXPECT_LE(stats.cut_tokens, 2);  // those that had arrived
  EXPECT_EQ(stats.generated_tokens - stats.cut_tokens,
            static_cast<std::int64_t>(completion.token_ids.size()));
}

// 60 tokens, 10 ms apart.
SampleRequest LongRequest() {
  SampleRequest request = RequestOf(0, 60);
  request.sampling.stop_token_ids = {};
  return request;
}

TEST(VllmWeightsTest, ToDrainTheServerIsPausedOnceItsSamplesHaveEnded) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), false, InFlight::kDrain);
  server.Drip(10);
  ASSERT_TRUE(engine->Submit(LongRequest()).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  const std::vector<EngineResult> ended = engine->Poll(std::chrono::milliseconds(0));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].segments, (std::vector<Segment>{{0, PolicyVersion()}}));
  EXPECT_EQ(ended[0].token_ids.size(), 60U);
  EXPECT_EQ(engine->stats().cut_tokens, 0);
}

TEST(VllmWeightsTest, WithTheirCacheSamplesGoOnInTheirRequests) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), false, InFlight::kKeepKv);
  server.Drip(10);
  ASSERT_TRUE(engine->Submit(LongRequest()).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  ASSERT_THAT(completion.segments, ::testing::SizeIs(2));
  EXPECT_EQ(completion.segments[0], (Segment{0, PolicyVersion()}));
  EXPECT_EQ(completion.segments[1].version, ManifestOf(1).version);
  EXPECT_EQ(completion.token_ids.size(), 60U);
  const auto first = static_cast<std::size_t>(completion.segments[1].first_token);
  EXPECT_EQ(
      std::vector<std::int32_t>(completion.token_ids.begin() + completion.segments[1].first_token,
                                completion.token_ids.end()),
      ScriptedVllm::Tokens(ManifestOf(1).folder, 3 + first, 63));
  EXPECT_EQ(server.completions().size(), 1U);
  EXPECT_THAT(server.control_calls(), ::testing::Contains("/pause?mode=keep&clear_cache=false"));
}

// Tokens that come after a second update count as the oldest weights that may have sampled them.
TEST(VllmWeightsTest, WithTheirCacheSamplesGoOnThroughUpdatesWithoutATokenBetween) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), false, InFlight::kKeepKv);
  server.Drip(60);  // an update takes a few milliseconds
  ASSERT_TRUE(engine->Submit(LongRequest()).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.token_ids.size(), 60U);
  EXPECT_EQ(server.completions().size(), 1U);
  EXPECT_EQ(completion.segments.front(), (Segment{0, PolicyVersion()}));
  const Segment& last = completion.segments.back();
  EXPECT_EQ(last.version, ManifestOf(2).version);
  EXPECT_EQ(std::vector<std::int32_t>(completion.token_ids.begin() + last.first_token,
                                      completion.token_ids.end()),
            ScriptedVllm::Tokens(ManifestOf(2).folder,
                                 3 + static_cast<std::size_t>(last.first_token), 63));
}

// What comes between a pause and a proof that fails is of weights that nobody knows.
TEST(VllmWeightsTest, WithTheirCacheSamplesKeepNoTokenOfUnprovenWeights) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), false, InFlight::kKeepKv);
  server.Drip(10);
  ASSERT_TRUE(engine->Submit(LongRequest()).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  server.ShiftLogprobs(-0.5);
  EXPECT_FALSE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.ShiftLogprobs(0);
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments.back().version, ManifestOf(1).version);
  EXPECT_EQ(completion.token_ids.size(), 60U);
  ExpectTokensOfSegments(completion);
  EXPECT_GT(engine->stats().cut_tokens, 0);
}

TEST(VllmWeightsTest, TokensThatAServerSendsAtThePauseAreKept) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kSendAtPause});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments,
            (std::vector<Segment>{{0, PolicyVersion()}, {3, ManifestOf(1).version}}));
  ExpectTokensOfSegments(completion);
}

// They are loaded next to the weights that the server has, and completions name them.
TEST(VllmWeightsTest, AdaptersAreLoadedAndNamed) {
  const auto manifest_of = [](std::uint64_t step) {
    WeightManifest manifest = ManifestOf(step);
    manifest.files = {{"adapter_model.safetensors", 1, ""}, {"adapter_config.json", 1, ""}};
    return manifest;
  };
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}), /*adapters=*/true);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    ASSERT_TRUE(engine->UpdateWeights(manifest_of(step)).ok());
    EXPECT_EQ(server.adapters(), ManifestOf(step).folder);
    ASSERT_TRUE(engine->Submit(RequestOf(static_cast<std::int32_t>(step))).ok());
    const EngineResult completion = PollFor(*engine, 1)[0];
    EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(step).version}}));
    ExpectTokensOfSegments(completion);
  }
  server.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{server.url(), false, false}}));
  server.Restart();
  ASSERT_TRUE(WaitUntil([&] { return server.adapters() == ManifestOf(2).folder; }));
  EXPECT_EQ(Reloads(server), 0);  // it has the start model from its start
}

TEST(VllmWeightsTest, AServerWithoutAdaptersIsNamedWithItsFlags) {
  ScriptedVllm::Settings settings;
  settings.lora = false;
  ScriptedVllm server(settings);
  const auto engine = StartEngine(ConfigOf({server.url()}), /*adapters=*/true);
  WeightManifest manifest = ManifestOf(1);
  manifest.files = {{"adapter_config.json", 1, ""}};
  EXPECT_THAT(engine->UpdateWeights(manifest).message(),
              HasSubstr("must be started with --enable-lora --max-lora-rank R"));
}

TEST(VllmWeightsTest, AStopStringMayBeginUnderOneVersionAndEndUnderTheNext) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kHoldUntilPause});  // after two tokens
  SampleRequest request = RequestOf(0);
  request.sampling.stop = {TextAt(kModelFolder, 4, 5) + TextAt(ManifestOf(1).folder, 5, 6)};
  request.sampling.min_tokens = 2;
  ASSERT_TRUE(engine->Submit(request).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  ExpectTokensOfSegments(completion);
  const auto kept = static_cast<std::size_t>(completion.segments.back().first_token);
  EXPECT_EQ(server.completions().at(1)["min_tokens"], 2 - kept);
  if (kept == 2) {  // the two tokens may arrive after the interruption
    EXPECT_EQ(completion.token_ids.size(), 3U);
    EXPECT_EQ(completion.finish_reason, FinishReason::kStop);
  }
}

TEST(VllmWeightsTest, SamplesInterruptedBeforeTheirFirstTokenAreNotFailuresOfTheServer) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.attempts = 1;
  const auto engine = StartEngine(config);
  server.Fail(std::vector<Fault>(4, Fault::kCutBeforeToken));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
  ASSERT_TRUE(server.WaitForCompletions(4));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  for (const EngineResult& result : PollFor(*engine, 4)) {
    EXPECT_EQ(result.segments, (std::vector<Segment>{{0, ManifestOf(1).version}}));
    ExpectTokensOfSegments(result);
  }
  EXPECT_EQ(Reloads(server), 2);  // none for a revival
}

TEST(VllmWeightsTest, UnchangedWeightsAreAnErrorAndTheServerServesNothingUntilTheyChange) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.IgnoreReloads(true);
  const Status unchanged = engine->UpdateWeights(ManifestOf(2));
  EXPECT_EQ(unchanged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(unchanged.message(),
              HasSubstr("its log-probs are unchanged: it still serves policy 1:1"));
  EXPECT_EQ(engine->version(), ManifestOf(1).version);
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  server.IgnoreReloads(false);
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(2).version}}));
  ExpectTokensOfSegments(completion);
  EXPECT_EQ(engine->version(), ManifestOf(2).version);
  // The failure of before is that of the server until the engine notes that it serves.
  EXPECT_TRUE(WaitUntil([&] { return engine->UpdateWeights(ManifestOf(2)).ok(); }));
}

// In bfloat16 the bound is 0.05 nats, and a change of the learner shows from 0.005 on.
TEST(VllmWeightsTest, SmallChangesOfTheLearnerAddUpUntilAServerThatDidNotFollowIsNoticed) {
  ScriptedVllm::Settings settings;
  settings.dtype = "torch.bfloat16";
  ScriptedVllm server(settings);
  server.IgnoreReloads(true);
  const auto engine = StartEngine(ConfigOf({server.url()}));
  const auto moved = [](std::uint64_t step) {
    WeightManifest manifest = ManifestOf(step);
    manifest.canaries = ScriptedVllm::Canaries("as started");
    for (Canary& canary : manifest.canaries) {
      for (float& logprob : canary.logprobs) logprob -= 0.002F * static_cast<float>(step);
    }
    return manifest;
  };
  for (std::uint64_t step = 0; step < 3; ++step)
    ASSERT_TRUE(engine->UpdateWeights(moved(step)).ok());
  EXPECT_THAT(engine->UpdateWeights(moved(3)).message(),
              HasSubstr("it still serves policy 1:0 (the learner's log-probs changed by 0.006"));
  EXPECT_GE(engine->stats().unchanged_weights, 1);
}

TEST(VllmWeightsTest, UnchangedWeightsAreCountedAndTheDifferenceIsReported) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  EXPECT_LT(engine->stats().canary_difference, 1e-6);
  EXPECT_EQ(engine->stats().unchanged_weights, 0);
  server.IgnoreReloads(true);
  EXPECT_FALSE(engine->UpdateWeights(ManifestOf(2)).ok());
  EXPECT_GT(engine->stats().canary_difference, 0.05);
  EXPECT_GE(engine->stats().unchanged_weights, 1);  // and each time that it is tried again
}

TEST(VllmWeightsTest, AVersionWhoseLogprobsDifferFromTheLearnersIsNotUsed) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.ShiftLogprobs(-0.01);
  const Status refused = engine->UpdateWeights(ManifestOf(1));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      refused.message(),
      HasSubstr("differ from the learner's by 0.01 nats on average; expected at most 0.001"));
  EXPECT_EQ(engine->version(), PolicyVersion());
  EXPECT_EQ(engine->stats().unchanged_weights, 0);
  EXPECT_NEAR(engine->stats().canary_difference, 0.01, 1e-4);
}

TEST(VllmWeightsTest, TheBoundFollowsThePrecisionOfServerAndWeightsOrTheSetting) {
  ScriptedVllm::Settings settings;
  settings.dtype = "torch.bfloat16";
  ScriptedVllm rough(settings);
  rough.ShiftLogprobs(-0.01);
  EXPECT_TRUE(StartEngine(ConfigOf({rough.url()}))->UpdateWeights(ManifestOf(1)).ok());
  ScriptedVllm exact;
  exact.ShiftLogprobs(-0.01);
  WeightManifest rounded = ManifestOf(1);
  rounded.tensors = {{"t", "BF16", {1}, "f", 0, 2}};
  EXPECT_TRUE(StartEngine(ConfigOf({exact.url()}))->UpdateWeights(rounded).ok());
  VllmConfig config = ConfigOf({exact.url()});
  config.canary_nats = 0.02;
  EXPECT_TRUE(StartEngine(config)->UpdateWeights(ManifestOf(1)).ok());
}

TEST(VllmWeightsTest, AVersionWithoutCanariesIsRefused) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  WeightManifest manifest = ManifestOf(1);
  manifest.canaries.clear();
  EXPECT_THAT(engine->UpdateWeights(manifest).message(),
              HasSubstr("start the learner with local.worker.engine: vllm"));
  EXPECT_EQ(server.weights(), kModelFolder);
}

TEST(VllmWeightsTest, TheSameWeightsUnderANewVersionAreNoError) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  WeightManifest manifest = ManifestOf(1);
  ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
  manifest.version.step = 2;
  EXPECT_TRUE(engine->UpdateWeights(manifest).ok());
  EXPECT_EQ(engine->version().step, 2U);
}

TEST(VllmWeightsTest, AServerWhoseLoadFailedIsResumedAndTriesAgain) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.FailReloads(2);
  EXPECT_EQ(engine->UpdateWeights(ManifestOf(2)).code(), StatusCode::kUnavailable);
  const std::vector<std::string> calls = server.control_calls();
  const std::vector<std::string> failed = {"/collective_rpc", "/resume"};  // without a reset
  EXPECT_FALSE(std::ranges::search(calls, failed).empty());
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(2).version}}));
  ExpectTokensOfSegments(completion);
  EXPECT_EQ(engine->version(), ManifestOf(2).version);
}

TEST(VllmWeightsTest, AFolderThatWasDeletedIsNotLoadedAndTheNextVersionIs) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{server.url(), false, false}}));
  const WeightManifest deleted = ManifestOf(2);
  EXPECT_EQ(engine->UpdateWeights(deleted).code(), StatusCode::kUnavailable);
  std::filesystem::remove(deleted.folder);
  server.Restart();
  ASSERT_TRUE(WaitForServers(*engine, {{server.url(), true, false}}));
  ASSERT_TRUE(WaitUntil([&] { return engine->UpdateWeights(ManifestOf(3)).ok(); }));
  EXPECT_FALSE(server.ended());
  EXPECT_EQ(server.weights(), ManifestOf(3).folder);
}

TEST(VllmWeightsTest, AServerThatIsBehindLoadsTheNewestVersionAndNoneInBetween) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  b.HangReloads(true);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  ASSERT_TRUE(b.WaitForHungReload());
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(3)).ok());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
  for (const EngineResult& result : PollFor(*engine, 6)) {
    EXPECT_EQ(result.segments, (std::vector<Segment>{{0, ManifestOf(3).version}}));
    ExpectTokensOfSegments(result);
  }
  EXPECT_EQ(a.completions().size(), 6U);
  b.HangReloads(false);
  ASSERT_TRUE(UpdateAll(*engine, ManifestOf(3)));
  EXPECT_EQ(Reloads(a), 4);  // the start and three versions
  EXPECT_EQ(Reloads(b), 3);
}

TEST(VllmWeightsTest, ANewerVersionDoesNotWaitForTheLoadOfAnOlderOne) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  a.HangReloads(true);
  b.FailReloads(1 << 20);
  std::thread newer([&] {
    EXPECT_TRUE(a.WaitForHungReload());
    engine->InterruptUpdate();
  });
  EXPECT_EQ(engine->UpdateWeights(ManifestOf(1)).code(), StatusCode::kCancelled);
  newer.join();
  b.FailReloads(0);
  EXPECT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  EXPECT_EQ(b.weights(), ManifestOf(2).folder);
  a.HangReloads(false);
  EXPECT_TRUE(UpdateAll(*engine, ManifestOf(2)));
}

TEST(VllmWeightsTest, ALoadHasAnEnd) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.control_ms = 1000;
  const auto engine = StartEngine(config);
  server.HangReloads(true);
  EXPECT_EQ(engine->UpdateWeights(ManifestOf(1)).code(), StatusCode::kDeadlineExceeded);
  server.HangReloads(false);
  EXPECT_TRUE(WaitUntil([&] { return engine->version() == ManifestOf(1).version; }));
}

TEST(VllmWeightsTest, NeitherTheEndOfAWorkerNorThatOfTheEngineWaitsForALoad) {
  ScriptedVllm server;
  auto engine = StartEngine(ConfigOf({server.url()}));
  server.HangReloads(true);
  std::thread stop([&] {
    EXPECT_TRUE(server.WaitForHungReload());
    engine->StopUpdates();
  });
  EXPECT_EQ(engine->UpdateWeights(ManifestOf(1)).code(), StatusCode::kCancelled);
  stop.join();
  engine.reset();
}

TEST(VllmWeightsTest, AServerThatFailsDoesNotDelayTheOthersAndFollowsLater) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  a.FailReloads(1);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  EXPECT_EQ(b.weights(), ManifestOf(1).folder);
  b.Stop();
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  ExpectTokensOfSegments(result);
  EXPECT_EQ(a.weights(), ManifestOf(1).folder);
}

TEST(VllmWeightsTest, AServerThatRestartsWithOtherWeightsLoadsTheRightOnesBeforeItServes) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.Fail({Fault::kCloseAtOnce});
  server.ForgetWeights();
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult completion = PollFor(*engine, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(1).version}}));
  ExpectTokensOfSegments(completion);
}

}  // namespace
}  // namespace buttress
