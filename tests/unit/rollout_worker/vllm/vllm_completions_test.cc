#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(VllmCompletionsTest, ACompletionHasTokensLogprobsAndVersion) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->Submit(RequestOf(3)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_EQ(result.id, (SampleId{18, 2, 3}));
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(result.token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 8));
  EXPECT_EQ(result.logprobs.size(), result.token_ids.size());
  EXPECT_EQ(result.segments, (std::vector<Segment>{{0, PolicyVersion()}}));
}

TEST(VllmCompletionsTest, EverySamplingFieldIsSentWithTheSaltOfTheWeights) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  SampleRequest request = RequestOf(0);
  request.sampling.stop_token_ids = {2, 7};
  request.sampling.stop = {"one", "two", "three", "four", "five"};
  request.sampling.min_tokens = 4;
  ASSERT_TRUE(engine->Submit(request).ok());
  PollFor(*engine, 1);
  const nlohmann::json body = server.completions().at(0);
  const nlohmann::json expected = {{"model", "policy"},
                                   {"prompt", {1, 2, 3}},
                                   {"n", 1},
                                   {"stream", true},
                                   {"max_tokens", 16},
                                   {"min_tokens", 4},
                                   {"temperature", 0.7},
                                   {"top_p", 1.0},
                                   {"top_k", -1},
                                   {"min_p", 0.0},
                                   {"repetition_penalty", 1.0},
                                   {"presence_penalty", 0.0},
                                   {"frequency_penalty", 0.0},
                                   {"stop", {"one", "two", "three", "four"}},
                                   {"include_stop_str_in_output", true},
                                   {"stop_token_ids", {2, 7}},
                                   {"ignore_eos", true},
                                   {"logprobs", 0},
                                   {"return_token_ids", true},
                                   {"return_tokens_as_token_ids", true},
                                   {"cache_salt", "w0-0"},
                                   {"stream_options", {{"include_usage", true}}}};
  EXPECT_EQ(body, expected);
  EXPECT_THAT(server.request_ids(), ElementsAre("g18-l2-s0-a0"));
}

// Returns the seeds of `count` requests to servers with these seeds of their own; null where a
// request has none.
std::vector<nlohmann::json> SeedsOfRequests(std::int64_t a_seed, std::int64_t b_seed, int count) {
  ScriptedVllm::Settings settings;
  settings.seed = a_seed;
  ScriptedVllm a(settings);
  settings.seed = b_seed;
  ScriptedVllm b(settings);
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  EXPECT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  for (int i = 0; i < count; ++i) {
    SampleRequest request = RequestOf(i);
    request.sampling.seed = 0xffffffffffffffffULL;
    EXPECT_TRUE(engine->Submit(request).ok());
  }
  PollFor(*engine, static_cast<std::size_t>(count));
  std::vector<nlohmann::json> seeds;
  for (const ScriptedVllm* server : {&a, &b})
    for (const nlohmann::json& body : server->completions())
      seeds.push_back(body.value("seed", nlohmann::json()));
  return seeds;
}

TEST(VllmCompletionsTest, RequestsHaveSeedsWhereServersDrawTheSameRandomNumbers) {
  EXPECT_THAT(SeedsOfRequests(1, 2, 4), ::testing::Each(nlohmann::json()));
  EXPECT_THAT(SeedsOfRequests(1, 1, 4), ::testing::Each(nlohmann::json(0x7fffffffffffffffULL)));
}

TEST(VllmCompletionsTest, TheStreamIntervalIsSentToServersThatTakeIt) {
  ScriptedVllm::Settings settings;
  settings.takes_stream_interval = true;
  ScriptedVllm server(settings);
  VllmConfig config = ConfigOf({server.url()});
  config.stream_interval = 5;
  const auto engine = StartEngine(config);
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  PollFor(*engine, 1);
  EXPECT_EQ(server.completions().at(0)["stream_interval"], 5);
}

TEST(VllmCompletionsTest, AStopStringThatTheServerPassesOverEndsTheCompletion) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  SampleRequest request = RequestOf(0);
  request.sampling.stop = {TextAt(kModelFolder, 4, 6)};  // tokens 1 and 2 of the completion
  server.Fail({Fault::kStallAfterThree});
  ASSERT_TRUE(engine->Submit(request).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 6));
  EXPECT_EQ(result.logprobs.size(), 3U);
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(server.WaitForLeft(1));
  // The server did nothing wrong, and serves on.
  ASSERT_TRUE(engine->Submit(RequestOf(1)).ok());
  EXPECT_EQ(PollFor(*engine, 1)[0].token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 8));
  EXPECT_THAT(server.request_ids(), ElementsAre("g18-l2-s0-a0", "g18-l2-s1-a0"));
}

TEST(VllmCompletionsTest, AStopStringAtTheLastTokenIsAStopWhateverTheServerSays) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  SampleRequest request = RequestOf(0, 4);  // the server's reason is "length"
  request.sampling.stop = {TextAt(kModelFolder, 5, 7)};
  ASSERT_TRUE(engine->Submit(request).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(result.token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 7));
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
}

TEST(VllmCompletionsTest, StopStringsBeforeMinTokensArePassedOver) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  SampleRequest request = RequestOf(0);
  request.sampling.stop = {TextAt(kModelFolder, 4, 5), TextAt(kModelFolder, 6, 7)};
  request.sampling.min_tokens = 3;
  ASSERT_TRUE(engine->Submit(request).ok());
  EXPECT_EQ(PollFor(*engine, 1)[0].token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 7));
}

TEST(VllmCompletionsTest, MaxTokensAreClampedToTheRoomOfTheServerAndLongPromptsAreRefused) {
  ScriptedVllm::Settings settings;
  settings.max_model_len = 20;
  ScriptedVllm server(settings);
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->Submit(RequestOf(0, 1000)).ok());
  EXPECT_TRUE(PollFor(*engine, 1)[0].status.ok());
  EXPECT_EQ(server.completions().at(0)["max_tokens"], 17);
  SampleRequest long_prompt = RequestOf(1);
  long_prompt.prompt_token_ids.assign(20, 1);
  const Status refused = engine->Submit(long_prompt);
  EXPECT_EQ(refused.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(refused.message(), HasSubstr("max_model_len = 20"));
}

class RetriedFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(RetriedFaultTest, AFaultCostsAnAttemptAndTheCompletionIsComplete) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  // Includes the time until the server is restored.
  if (GetParam() == Fault::kStallAtOnce) config.first_byte_ms = 2000;
  if (GetParam() == Fault::kStallMidway) config.idle_ms = 500;
  const auto engine = StartEngine(config);
  server.Fail({GetParam()});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  // Behind a completion whose end did not arrive the next attempt continues.
  const std::size_t end = GetParam() == Fault::kNoFinish ? 16 : 8;
  EXPECT_EQ(result.token_ids, ScriptedVllm::Tokens(kModelFolder, 3, end));
  EXPECT_EQ(result.segments.size(), 1U);
  EXPECT_THAT(server.request_ids(), ElementsAre("g18-l2-s0-a0", "g18-l2-s0-a1"));
}

INSTANTIATE_TEST_SUITE_P(All, RetriedFaultTest,
                         ::testing::Values(Fault::kHttp500, Fault::kEmpty503, Fault::kCloseAtOnce,
                                           Fault::kCloseMidway, Fault::kStallAtOnce,
                                           Fault::kStallMidway, Fault::kHalfJson, Fault::kNotJson,
                                           Fault::kErrorEvent, Fault::kFewerLogprobs,
                                           Fault::kMinusInfinity, Fault::kTwoChoices,
                                           Fault::kWrongUsage, Fault::kNoFinish,
                                           Fault::kTooManyTokens));

class FinalFaultTest : public ::testing::TestWithParam<std::pair<Fault, StatusCode>> {};

TEST_P(FinalFaultTest, AFaultThatNoRetryCanMendFailsAtOnce) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({GetParam().first});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_EQ(result.finish_reason, FinishReason::kError);
  EXPECT_EQ(result.status.code(), GetParam().second) << result.status.ToString();
  EXPECT_EQ(server.completions().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    All, FinalFaultTest,
    ::testing::Values(std::pair(Fault::kHttp400, StatusCode::kInvalidArgument),
                      std::pair(Fault::kTooLong, StatusCode::kOutOfRange),
                      std::pair(Fault::kNoLogprobs, StatusCode::kFailedPrecondition),
                      std::pair(Fault::kNoTokenIds, StatusCode::kFailedPrecondition),
                      std::pair(Fault::kCapOfItsOwn, StatusCode::kFailedPrecondition)));

TEST(VllmCompletionsTest, AttemptsAreBounded) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail(std::vector<Fault>(100, Fault::kHttp500));
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_EQ(result.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(result.status.message(), HasSubstr("HTTP 500: engine failed"));
  EXPECT_EQ(server.completions().size(), 3U);
}

TEST(VllmCompletionsTest, BytesMayArriveOneByOne) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kSlowBytes});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  EXPECT_EQ(PollFor(*engine, 1)[0].token_ids, ScriptedVllm::Tokens(kModelFolder, 3, 8));
  EXPECT_EQ(server.completions().size(), 1U);
}

TEST(VllmCompletionsTest, CancellingClosesTheConnectionAndEndsTheSampleOnce) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  engine->Cancel({18, 2, 0});
  const EngineResult result = PollFor(*engine, 1)[0];
  EXPECT_EQ(result.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(result.status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(server.WaitForLeft(1));
}

TEST(VllmCompletionsTest, AServerGetsNoMoreThanItsConcurrencyAndTheQueueIsBounded) {
  ScriptedVllm::Settings settings;
  settings.max_num_seqs = 2;
  ScriptedVllm server(settings);
  const auto engine = StartEngine(ConfigOf({server.url()}));
  server.Fail({Fault::kStallMidway, Fault::kStallMidway});
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
  EXPECT_EQ(engine->Submit(RequestOf(8)).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(server.WaitForCompletions(2));
  EXPECT_EQ(server.completions().size(), 2U);
  engine->Cancel({18, 2, 0});
  EXPECT_EQ(PollFor(*engine, 7).size(), 7U);  // all but the other one that stalls
  EXPECT_EQ(engine->stats().running, 1);
}

TEST(VllmCompletionsTest, AServerGetsNoMoreThanIsConfigured) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.concurrency = 1;
  const auto engine = StartEngine(config);
  server.Fail({Fault::kStallMidway});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
  ASSERT_TRUE(WaitUntil([&] { return engine->stats().servers.at(0).tokens == 2; }));
  EXPECT_EQ(server.completions().size(), 1U);
  engine->Cancel({18, 2, 0});
  EXPECT_EQ(PollFor(*engine, 3).size(), 3U);
}

TEST(VllmCompletionsTest, TheCompletionsOfAGroupGoToOneServer) {
  ScriptedVllm::Settings settings;
  settings.max_num_seqs = 64;
  ScriptedVllm a(settings);
  ScriptedVllm b(settings);
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  for (const std::uint64_t group : {20, 21, 22}) {
    for (int i = 0; i < 8; ++i) {
      SampleRequest request = RequestOf(i);
      request.id.group_id = group;
      ASSERT_TRUE(engine->Submit(request).ok());
    }
  }
  PollFor(*engine, 24);
  for (const std::string& id : b.request_ids()) EXPECT_THAT(id, HasSubstr("g21-"));
  EXPECT_EQ(a.request_ids().size(), 16U);
}

TEST(VllmCompletionsTest, TheLessLoadedServerGetsTheNextCompletion) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  a.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(a.WaitForCompletions(1));
  for (int i = 1; i < 4; ++i) {
    ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
    PollFor(*engine, 1);
  }
  EXPECT_EQ(a.completions().size(), 1U);
  EXPECT_EQ(b.completions().size(), 3U);
}

TEST(VllmCompletionsTest, WhenAServerFailsTheOthersCompleteItsSamples) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  a.Fail({Fault::kStallMidway, Fault::kStallMidway});
  b.Fail({Fault::kStallMidway});
  // The servers take turns, because no completion ends.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Submit(RequestOf(i)).ok());
  ASSERT_TRUE(a.WaitForCompletions(2));
  ASSERT_TRUE(b.WaitForCompletions(1));
  a.Stop();
  for (const EngineResult& result : PollFor(*engine, 2))
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  EXPECT_EQ(b.completions().size(), 3U);
}

}  // namespace
}  // namespace buttress
