#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kCheckMs = 3000;  // long enough for a healthy server on a busy machine

void ExpectCompletionsOf(const WeightManifest& manifest, InferenceEngine& engine,
                         std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i) ASSERT_TRUE(engine.Submit(RequestOf(i)).ok());
  for (const EngineResult& result : PollFor(engine, static_cast<std::size_t>(count))) {
    EXPECT_TRUE(result.status.ok()) << result.status.ToString();
    EXPECT_EQ(result.segments, (std::vector<Segment>{{0, manifest.version}}));
    EXPECT_EQ(result.token_ids, ScriptedVllm::Tokens(manifest.folder, 3, 8));
  }
}

TEST(VllmHealthTest, AnIdleServerThatDiesServesAgainAfterItHasLoadedTheWeights) {
  ScriptedVllm a;
  ScriptedVllm b;
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  const WeightManifest manifest = ManifestOf(1);
  ASSERT_TRUE(UpdateAll(*engine, manifest));
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  a.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), false, false}, {b.url(), true, true}}));
  ExpectCompletionsOf(manifest, *engine, 6);
  EXPECT_EQ(b.completions().size(), 6U);
  a.Restart();
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  EXPECT_EQ(a.weights(), manifest.folder);
  b.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), false, false}}));
  ExpectCompletionsOf(manifest, *engine, 6);
  EXPECT_EQ(a.completions().size(), 6U);
}

class HealthFaultTest : public ::testing::TestWithParam<HealthFault> {};

TEST_P(HealthFaultTest, AServerThatFailsItsCheckIsLostUntilItPassesOne) {
  ScriptedVllm a;
  ScriptedVllm b;
  VllmConfig config = ConfigOf({a.url(), b.url()});
  config.health_timeout_ms = kCheckMs;
  const auto engine = StartEngine(config);
  const WeightManifest manifest = ManifestOf(1);
  ASSERT_TRUE(UpdateAll(*engine, manifest));
  a.Fail({Fault::kStallMidway});
  ASSERT_TRUE(engine->Submit(RequestOf(9)).ok());
  ASSERT_TRUE(a.WaitForCompletions(1));
  a.FailHealth(GetParam());
  EXPECT_EQ(PollFor(*engine, 1)[0].token_ids, ScriptedVllm::Tokens(manifest.folder, 3, 8));
  EXPECT_TRUE(a.WaitForLeft(1));
  EXPECT_TRUE(WaitForServers(*engine, {{a.url(), false, false}, {b.url(), true, true}}));
  ExpectCompletionsOf(manifest, *engine, 6);
  EXPECT_EQ(a.completions().size(), 1U);
  // At the start and for the manifest; an unhealthy server is not revived.
  EXPECT_EQ(Reloads(a), 2);
  a.FailHealth(HealthFault::kNone);
  EXPECT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  EXPECT_EQ(Reloads(a), 2);  // it is the same process, which has proven its weights again
}

INSTANTIATE_TEST_SUITE_P(All, HealthFaultTest,
                         ::testing::Values(HealthFault::kEmpty503, HealthFault::kHang,
                                           HealthFault::kTrickle));

TEST(VllmHealthTest, WeightsReachTheOtherServersWhileOneHangs) {
  ScriptedVllm a;
  ScriptedVllm b;
  VllmConfig config = ConfigOf({a.url(), b.url()});
  config.health_timeout_ms = kCheckMs;
  const auto engine = StartEngine(config);
  a.FailHealth(HealthFault::kHang);
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), false, false}, {b.url(), true, true}}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  EXPECT_EQ(a.weights(), kModelFolder);
  a.FailHealth(HealthFault::kNone);
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  EXPECT_EQ(a.weights(), ManifestOf(1).folder);
}

TEST(VllmHealthTest, AHealthCheckThatPassesDoesNotRestoreAServerWithWrongWeights) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.IgnoreReloads(true);
  server.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{server.url(), false, false}}));
  server.Restart();
  ASSERT_TRUE(WaitForServers(*engine, {{server.url(), true, false}}));
  server.IgnoreReloads(false);
  EXPECT_TRUE(WaitForServers(*engine, {{server.url(), true, true}}));
  EXPECT_EQ(server.weights(), ManifestOf(1).folder);
}

TEST(VllmHealthTest, AnUnhealthyServerIsRefusedAtTheStart) {
  ScriptedVllm server;
  server.FailHealth(HealthFault::kHang);
  VllmConfig config = ConfigOf({server.url()});
  config.health_timeout_ms = 100;
  const Status refused = MakeVllmEngine(StartModel(), config, PolicyVersion()).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(),
              HasSubstr("/health: no whole reply in 100 ms (whole-reply deadline)"));
  EXPECT_THAT(server.control_calls(), ElementsAre());
}

}  // namespace
}  // namespace buttress
