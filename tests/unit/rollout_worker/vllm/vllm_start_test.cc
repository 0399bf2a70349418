#include <chrono>
#include <cmath>
#include <future>

#include "lib/base/os/file.h"
#include "tests/support/secret_file.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Status StatusOfStart(const ScriptedVllm& server, VllmConfig config = {}) {
  config.servers = {server.url()};
  return MakeVllmEngine(StartModel(), config, PolicyVersion()).status();
}

void ExpectRefusal(const ScriptedVllm::Settings& settings, const std::string& why) {
  const ScriptedVllm server(settings);
  const Status status = StatusOfStart(server);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(why));
  EXPECT_THAT(status.message(),
              HasSubstr("--generation-config vllm --logprobs-mode processed_logprobs"));
}

TEST(VllmStartTest, AServerThatWouldSampleDifferentlyIsRefusedWithTheFlagsToSet) {
  ScriptedVllm::Settings settings;
  settings.logprobs_mode = "raw_logprobs";
  ExpectRefusal(settings, "logprobs_mode = \"raw_logprobs\"");
  settings = {};
  settings.generation_config = "auto";
  ExpectRefusal(settings, "generation_config = \"auto\"");
  settings = {};
  settings.missing_route = "/server_info";
  ExpectRefusal(settings, "/server_info");
  settings = {};
  settings.missing_route = "/collective_rpc";
  ExpectRefusal(settings, "has no route /collective_rpc");
  settings = {};
  settings.dev_mode = false;
  ExpectRefusal(settings, "has no route /pause");
}

TEST(VllmStartTest, LogprobsOfAnotherDistributionAreDetectedWhateverTheServerReports) {
  ScriptedVllm::Settings settings;
  settings.processed = false;
  ExpectRefusal(settings, "log-probs of another distribution");
}

TEST(VllmStartTest, TokensWhoseLogitsTieAreSampledFromTheDistributionThatIsReported) {
  ScriptedVllm::Settings settings;
  settings.top_1_logprob = -std::log(2.0);
  const ScriptedVllm server(settings);
  EXPECT_TRUE(StatusOfStart(server).ok());
  settings.top_1_logprob = -0.5;
  ExpectRefusal(settings, "log-probs of another distribution");
}

TEST(VllmStartTest, AServerWithoutAListOfRoutesIsAccepted) {
  ScriptedVllm::Settings settings;
  settings.lists_routes = false;
  const ScriptedVllm server(settings);
  EXPECT_TRUE(StatusOfStart(server).ok());
}

TEST(VllmStartTest, AModelThatIsNotServedIsNamedWithTheServedOnes) {
  const ScriptedVllm server;
  VllmConfig config;
  config.model = "other";
  EXPECT_THAT(StatusOfStart(server, config).message(),
              HasSubstr("model = other is not served; it serves: policy"));
}

TEST(VllmStartTest, TheApiKeyIsReadFromItsFile) {
  ScriptedVllm::Settings settings;
  settings.api_key = "secret";
  const ScriptedVllm server(settings);
  const Status without = StatusOfStart(server);
  EXPECT_EQ(without.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(without.message(), HasSubstr("Unauthorized"));
  const TempDir folder;
  VllmConfig config;
  config.api_key_file = folder.path() + "/key";
  ASSERT_TRUE(WriteSecret(config.api_key_file, "secret\n").ok());
  EXPECT_TRUE(StatusOfStart(server, config).ok());
  ASSERT_TRUE(WriteSecret(config.api_key_file, "two\nlines\n").ok());
  EXPECT_EQ(StatusOfStart(server, config).code(), StatusCode::kInvalidArgument);
}

TEST(VllmStartTest, AnAddressWithoutAServerIsUnavailable) {
  ScriptedVllm server;
  server.Stop();
  EXPECT_EQ(StatusOfStart(server).code(), StatusCode::kUnavailable);
}

TEST(VllmStartTest, AServerThatTheRunStartsIsWaitedForUntilItIsReady) {
  ScriptedVllm server;
  server.Stop();
  VllmConfig config = ConfigOf({server.url()});
  config.launch.binary = "vllm";
  config.launch.ready_ms = 600000;
  auto engine = std::async(std::launch::async, [&config] {
    return MakeVllmEngine(StartModel(), config, PolicyVersion()).status();
  });
  EXPECT_EQ(engine.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
  server.Restart();
  const Status status = engine.get();
  EXPECT_TRUE(status.ok()) << status.ToString();
  server.Stop();
  config.launch.ready_ms = 100;
  EXPECT_EQ(StatusOfStart(server, config).code(), StatusCode::kUnavailable);
}

TEST(VllmStartTest, AWorkerWithoutServersSaysWhoStartsThem) {
  VllmConfig config;
  config.launch.binary = "vllm";
  EXPECT_THAT(MakeVllmEngine(StartModel(), config, PolicyVersion()).status().message(),
              HasSubstr("buttress launch starts the servers"));
}

TEST(VllmStartTest, AServerThatIsDownJoinsTheOthersWhenItComesUp) {
  ScriptedVllm a;
  ScriptedVllm b;
  b.Stop();
  const auto engine = StartEngine(ConfigOf({a.url(), b.url()}));
  ASSERT_NE(engine, nullptr);
  ASSERT_TRUE(engine->UpdateWeights(ManifestOf(1)).ok());
  EXPECT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), false, false}}));
  b.Restart();
  EXPECT_TRUE(WaitForServers(*engine, {{a.url(), true, true}, {b.url(), true, true}}));
  EXPECT_EQ(b.weights(), ManifestOf(1).folder);
}

TEST(VllmStartTest, AServerWithWrongSettingsIsRefusedBesideOneThatServes) {
  const ScriptedVllm good;
  ScriptedVllm::Settings settings;
  settings.logprobs_mode = "raw_logprobs";
  const ScriptedVllm wrong(settings);
  const VllmConfig config = ConfigOf({good.url(), wrong.url()});
  EXPECT_EQ(MakeVllmEngine(StartModel(), config, PolicyVersion()).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(VllmStartTest, AServerStartsWithTheModelOfTheRun) {
  ScriptedVllm server;
  const auto engine = StartEngine(ConfigOf({server.url()}));
  EXPECT_EQ(server.weights(), kModelFolder);
  EXPECT_THAT(server.control_calls(),
              ElementsAre("/resume", "/pause?mode=abort&clear_cache=true", "/collective_rpc",
                          "/reset_prefix_cache", "/resume"));
}

}  // namespace
}  // namespace buttress
