// Servers that share their GPUs with the learner (launch.colocate).
#include <filesystem>

#include "lib/config/run_folder.h"
#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPause[] = "/pause?mode=abort&clear_cache=true";
constexpr char kSleep[] = "/sleep?level=2&mode=abort";
constexpr char kWakeWeights[] = "/wake_up?tags=weights";
constexpr char kWakeCache[] = "/wake_up?tags=kv_cache";

ScriptedVllm::Settings Sleeper() {
  ScriptedVllm::Settings settings;
  settings.sleep_mode = true;
  return settings;
}

class VllmSleepTest : public ::testing::Test {
 protected:
  std::unique_ptr<InferenceEngine> Start(const ScriptedVllm& server, bool adapters = false) {
    VllmConfig config = ConfigOf({server.url()});
    config.control_ms = 1000;
    config.launch.binary = "vllm";
    config.launch.colocate = true;
    auto engine = MakeVllmEngine(StartModel(), config, PolicyVersion(), nullptr, adapters,
                                 InFlight::kRecompute, out_.path());
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  // Whether the restart of the server is asked for.
  bool Restarts(const ScriptedVllm& server) const {
    return std::filesystem::exists(
        VllmRestartPath(out_.path(), server.url().substr(server.url().rfind(':') + 1)));
  }

  static bool WaitForSleep(InferenceEngine& engine) {
    return WaitUntil([&] { return engine.Sleep(); });
  }

  // The last `count` control calls.
  static std::vector<std::string> LastCalls(const ScriptedVllm& server, std::ptrdiff_t count) {
    const std::vector<std::string> calls = server.control_calls();
    return {calls.end() - std::min(count, std::ssize(calls)), calls.end()};
  }

  static void ExpectSample(InferenceEngine& engine, std::uint64_t step) {
    ASSERT_TRUE(engine.Submit(RequestOf(0)).ok());
    const EngineResult completion = PollFor(engine, 1)[0];
    EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, ManifestOf(step).version}}));
    ExpectTokensOfSegments(completion);
  }

  const TempDir out_;
};

TEST_F(VllmSleepTest, AServerSleepsBehindItsSamplesAndWakesForTheNextOnes) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server);
  EXPECT_TRUE(server.asleep());
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  server.Drip(10);
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  ASSERT_TRUE(server.WaitForCompletions(1));
  EXPECT_FALSE(engine->Sleep());
  const EngineResult completion = PollFor(*engine, 1)[0];
  ExpectTokensOfSegments(completion);
  EXPECT_FALSE(server.asleep());
  ASSERT_TRUE(WaitForSleep(*engine));
  EXPECT_TRUE(server.asleep());
  EXPECT_TRUE(engine->stats().available);
  EXPECT_TRUE(WaitForServers(*engine, {{server.url(), true, true}}));
  server.Drip(0);
  for (const std::uint64_t step : {2U, 3U}) {
    ASSERT_TRUE(engine->UpdateWeights(ManifestOf(step)).ok());
    EXPECT_EQ(engine->version(), ManifestOf(step).version);
    EXPECT_TRUE(engine->Sleep() && server.asleep());
  }
  ExpectSample(*engine, 3);
  EXPECT_THAT(LastCalls(server, 6),
              ElementsAre(kSleep, kWakeWeights, kPause, "/collective_rpc", kWakeCache, "/resume"));
  EXPECT_FALSE(server.ended());
}

// As for groups in place of others that the coordinator dropped.
TEST_F(VllmSleepTest, ASampleWakesTheServerWithTheVersionThatItHad) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(WaitForSleep(*engine));
    EXPECT_EQ(server.weights(), "lost in sleep");
    ExpectSample(*engine, 1);
    EXPECT_EQ(server.weights(), ManifestOf(1).folder);
  }
}

TEST_F(VllmSleepTest, AdaptersLieOnWeightsThatTheServerKeeps) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server, /*adapters=*/true);
  ASSERT_TRUE(WaitForSleep(*engine));
  EXPECT_THAT(LastCalls(server, 1), ElementsAre("/sleep?level=1&mode=abort"));
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  EXPECT_EQ(PollFor(*engine, 1)[0].token_ids, ScriptedVllm::Tokens("as started", 3, 8));
  EXPECT_THAT(LastCalls(server, 1), ElementsAre("/wake_up"));
  ASSERT_TRUE(WaitForSleep(*engine));
  WeightManifest manifest = ManifestOf(1);
  manifest.files = {{"adapter_config.json", 1, ""}};
  ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
  ExpectSample(*engine, 1);
  EXPECT_THAT(LastCalls(server, 5),
              ElementsAre(kWakeWeights, kPause, "/v1/load_lora_adapter", kWakeCache, "/resume"));
}

TEST_F(VllmSleepTest, TheNextWorkerWakesAServerThatItFindsAsleep) {
  ScriptedVllm server(Sleeper());
  {
    const auto killed = Start(server);
    ASSERT_TRUE(killed->UpdateWeights(ManifestOf(1)).ok());
    ASSERT_TRUE(WaitForSleep(*killed));
  }
  const std::size_t before = server.control_calls().size();
  const auto engine = Start(server);
  EXPECT_TRUE(server.asleep()) << "the learner may train";
  EXPECT_EQ(server.control_calls().size(), before + 1);
  EXPECT_THAT(LastCalls(server, 1), ElementsAre(kSleep));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  ExpectSample(*engine, 2);
  EXPECT_THAT(LastCalls(server, 5),
              ElementsAre(kWakeWeights, kPause, "/collective_rpc", kWakeCache, "/resume"));
  EXPECT_FALSE(server.ended());
}

TEST_F(VllmSleepTest, AServerThatCannotSleepIsStartedAgain) {
  ScriptedVllm a(Sleeper()), b(Sleeper());
  VllmConfig config = ConfigOf({a.url(), b.url()});
  config.control_ms = 1000;
  config.launch.binary = "vllm";
  config.launch.colocate = true;
  const auto engine = *MakeVllmEngine(StartModel(), config, PolicyVersion(), nullptr, false,
                                      InFlight::kRecompute, out_.path());
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  ExpectSample(*engine, 1);
  ASSERT_TRUE(WaitUntil([&] { return !a.asleep() && !b.asleep(); }));
  a.FailSleep(1);
  ASSERT_TRUE(WaitForSleep(*engine));
  EXPECT_TRUE(Restarts(a));
  EXPECT_FALSE(Restarts(b));
  EXPECT_TRUE(b.asleep());
  a.Stop();
  ASSERT_TRUE(WaitForServers(*engine, {{a.url(), false, false}, {b.url(), true, true}}));
  a.Restart();  // awake
  EXPECT_TRUE(WaitUntil([&] { return a.asleep(); }));
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  ExpectSample(*engine, 2);
  EXPECT_TRUE(WaitUntil([&] { return !a.asleep() && !b.asleep(); }));
}

TEST_F(VllmSleepTest, AServerThatDoesNotAnswerInTimeIsStartedAgain) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  ExpectSample(*engine, 1);
  server.HangSleep(true);
  EXPECT_FALSE(engine->Sleep());
  EXPECT_TRUE(WaitUntil([&] { return Restarts(server); }));
  std::filesystem::remove_all(out_.path());
  std::filesystem::create_directory(out_.path());
  server.HangSleep(false);
  ASSERT_TRUE(WaitUntil([&] { return engine->Sleep() && server.asleep(); }));
  server.HangSleep(true);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok());
  ASSERT_TRUE(engine->Submit(RequestOf(0)).ok());
  EXPECT_TRUE(WaitUntil([&] { return Restarts(server); }));
  server.Stop();
  server.HangSleep(false);
  server.Restart();
  ExpectTokensOfSegments(PollFor(*engine, 1)[0]);
  EXPECT_EQ(server.weights(), ManifestOf(2).folder);
}

// A server with a part of its memory would end with the first sample.
TEST_F(VllmSleepTest, AServerThatGotNoWeightsStaysAsleepAndTriesAgain) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server);
  for (const bool load : {true, false}) {
    ASSERT_TRUE(WaitForSleep(*engine));
    const std::uint64_t step = load ? 1 : 2;
    ASSERT_TRUE(engine->UpdateWeights(ManifestOf(step)).ok());
    load ? server.FailReloads(2) : server.FailSleep(2);
    ExpectSample(*engine, step);
    EXPECT_FALSE(server.ended());
    EXPECT_FALSE(Restarts(server));
  }
}

TEST_F(VllmSleepTest, AVersionThatIsBeingLoadedIsProvenBeforeTheServerMaySleep) {
  ScriptedVllm server(Sleeper());
  const auto engine = Start(server);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  ExpectSample(*engine, 1);
  server.HangReloads(true);
  std::thread update([&] { EXPECT_TRUE(engine->UpdateWeights(ManifestOf(2)).ok()); });
  ASSERT_TRUE(server.WaitForHungReload());
  EXPECT_FALSE(engine->Sleep());
  server.HangReloads(false);
  update.join();
  EXPECT_EQ(server.weights(), ManifestOf(2).folder);
  EXPECT_TRUE(WaitForSleep(*engine));
}

TEST_F(VllmSleepTest, AServerWithoutTheFlagIsRefused) {
  ScriptedVllm server;
  VllmConfig config = ConfigOf({server.url()});
  config.launch.colocate = true;
  EXPECT_THAT(MakeVllmEngine(StartModel(), config, PolicyVersion()).status().message(),
              HasSubstr("was started without --enable-sleep-mode"));
  ScriptedVllm::Settings settings = Sleeper();
  settings.missing_route = "/is_sleeping";
  ScriptedVllm old(settings);
  config.servers = {old.url()};
  EXPECT_THAT(MakeVllmEngine(StartModel(), config, PolicyVersion()).status().message(),
              HasSubstr("has no route /is_sleeping; install vLLM 0.32 or newer"));
}

TEST_F(VllmSleepTest, ServersWithGpusOfTheirOwnDoNotSleep) {
  ScriptedVllm server(Sleeper());
  const auto engine = StartEngine(ConfigOf({server.url()}));
  EXPECT_TRUE(engine->Sleep());
  EXPECT_FALSE(server.asleep());
}

}  // namespace
}  // namespace buttress
