#include "cli/vllm/vllm_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "lib/base/os/fd.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunConfig ConfigOf() {
  RunConfig config;
  config.run.model.path = "/models/Qwen3-0.6B";
  config.run.data.max_prompt_tokens = 512;
  config.run.sampling.max_tokens = 2048;
  config.local.worker.engine = EngineKind::kVllm;
  config.local.worker.vllm.launch.binary = "/opt/vllm/bin/vllm";
  return config;
}

TEST(VllmServerTest, OnACpuTheServerComputesWithoutCompilation) {
  const ServerCommand command = MakeServerCommand(ConfigOf(), 40960, {0, 8000}, "");
  EXPECT_THAT(
      command.argv,
      ElementsAre("/opt/vllm/bin/vllm", "serve", "/models/Qwen3-0.6B", "--served-model-name",
                  "policy", "--host", "127.0.0.1", "--port", "8000", "--generation-config", "vllm",
                  "--logprobs-mode", "processed_logprobs", "--api-server-count", "1", "--dtype",
                  "float32", "--max-model-len", "2560", "--stream-interval", "16", "--seed",
                  ::testing::_, "--enforce-eager"));
  EXPECT_THAT(command.env,
              ElementsAre("VLLM_SERVER_DEV_MODE=1", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1"));
}

TEST(VllmServerTest, AServerIsStartedForTransfersThatAreSet) {
  RunConfig config = ConfigOf();
  config.local.worker.vllm.weights = VllmWeights::kNccl;
  config.local.worker.vllm.launch.gpus = {1};
  const ServerCommand command = MakeServerCommand(config, 2048, {0, 41234}, "");
  const std::size_t size = command.argv.size();
  EXPECT_EQ(command.argv[size - 2], "--weight-transfer-config");
  EXPECT_EQ(command.argv[size - 1], R"({"backend":"nccl"})");
  config.local.worker.vllm.weights = VllmWeights::kIpc;
  const ServerCommand mapping = MakeServerCommand(config, 2048, {0, 41234}, "");
  EXPECT_EQ(mapping.argv.back(), R"({"backend":"ipc"})");
  EXPECT_THAT(mapping.env, ::testing::Contains("VLLM_ALLOW_INSECURE_SERIALIZATION=1"));
}

TEST(VllmServerTest, AServerThatTakesTurnsWithTheLearnerMaySleep) {
  RunConfig config = ConfigOf();
  config.local.worker.vllm.launch.gpus = {0};
  config.local.worker.vllm.launch.colocate = true;
  EXPECT_EQ(MakeServerCommand(config, 2048, {0, 41234}, "").argv.back(), "--enable-sleep-mode");
}

TEST(VllmServerTest, OnGpusEachServerHasItsOwnAndArgumentsOfTheRunComeLast) {
  RunConfig config = ConfigOf();
  config.run.model.dtype = ModelDtype::kBfloat16;
  config.run.lora.rank = 12;
  VllmConfig& vllm = config.local.worker.vllm;
  vllm.model = "mine";
  vllm.launch.gpus = {4, 5, 6, 7};
  vllm.launch.tensor_parallel = 2;
  vllm.launch.args = {"--max-num-seqs", "64"};
  vllm.launch.env = {"HF_HUB_OFFLINE=0", "EMPTY="};
  const ServerCommand command = MakeServerCommand(config, 2048, {1, 41234}, "");
  EXPECT_THAT(
      command.argv,
      ElementsAre("/opt/vllm/bin/vllm", "serve", "/models/Qwen3-0.6B", "--served-model-name",
                  "mine", "--host", "127.0.0.1", "--port", "41234", "--generation-config", "vllm",
                  "--logprobs-mode", "processed_logprobs", "--api-server-count", "1", "--dtype",
                  "bfloat16", "--max-model-len", "2048", "--stream-interval", "16", "--seed",
                  ::testing::_, "--tensor-parallel-size", "2", "--enable-lora", "--max-lora-rank",
                  "16", "--max-num-seqs", "64"));
  EXPECT_THAT(command.env, ElementsAre("VLLM_SERVER_DEV_MODE=1", "VLLM_NO_USAGE_STATS=1",
                                       "HF_HUB_OFFLINE=1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
                                       "CUDA_VISIBLE_DEVICES=6,7", "HF_HUB_OFFLINE=0", "EMPTY="));
}

TEST(VllmServerTest, EachServerDrawsItsOwnNumbers) {
  const auto seed_of = [](int port) {
    const auto argv = MakeServerCommand(ConfigOf(), 0, {0, port}, "").argv;
    return *(std::ranges::find(argv, "--seed") + 1);
  };
  EXPECT_NE(seed_of(8000), seed_of(8001));
  EXPECT_EQ(seed_of(8000), seed_of(8000));
}

TEST(VllmServerTest, GpusAreCountedAmongTheVisibleOnes) {
  RunConfig config = ConfigOf();
  config.local.worker.vllm.launch.gpus = {1, 2};
  EXPECT_THAT(MakeServerCommand(config, 0, {1, 8000}, "GPU-a,GPU-b,GPU-c").env,
              ::testing::Contains("CUDA_VISIBLE_DEVICES=GPU-c"));
}

TEST(VllmServerTest, AShortRunLeavesRoomForTheCanaries) {
  RunConfig config = ConfigOf();
  config.run.data.max_prompt_tokens = 8;
  config.run.sampling.max_tokens = 8;
  EXPECT_THAT(MakeServerCommand(config, 0, {0, 8000}, "").argv, ::testing::Contains("64"));
}

TEST(VllmServerTest, TheScriptQuotesWhatAShellWouldReadAndReadsTheKeyWhereItRuns) {
  const ServerCommand command = {{"vllm", "serve", "/my models/a"}, {"A=1", "B=two words"}};
  EXPECT_EQ(ScriptOf(command, ""),
            "#!/bin/sh\nexport A=1\nexport B='two words'\nexec vllm serve '/my models/a'\n");
  EXPECT_THAT(ScriptOf(command, "/run/key"),
              HasSubstr("VLLM_API_KEY=$(cat /run/key) || exit 2\nexport VLLM_API_KEY\nexec "));
}

TEST(VllmServerTest, EveryServerBelongsToOneWorker) {
  const std::vector<int> ports = {1, 2, 3, 4, 5};
  EXPECT_EQ(ServersSetting(ports, 0, 1),
            "local.worker.vllm.servers=[http://127.0.0.1:1, http://127.0.0.1:2, "
            "http://127.0.0.1:3, http://127.0.0.1:4, http://127.0.0.1:5]");
  EXPECT_EQ(ServersSetting(ports, 0, 2),
            "local.worker.vllm.servers=[http://127.0.0.1:1, http://127.0.0.1:2]");
  EXPECT_EQ(
      ServersSetting(ports, 1, 2),
      "local.worker.vllm.servers=[http://127.0.0.1:3, http://127.0.0.1:4, http://127.0.0.1:5]");
  VllmLaunchConfig launch = ConfigOf().local.worker.vllm.launch;
  launch.gpus = {7, 6, 5, 4, 3, 2};
  launch.tensor_parallel = 2;
  EXPECT_EQ(GpusSetting(launch, 0, 2), "local.worker.vllm.launch.gpus=[7, 6]");
  EXPECT_EQ(GpusSetting(launch, 1, 2), "local.worker.vllm.launch.gpus=[5, 4, 3, 2]");
  EXPECT_EQ(GpusSetting(VllmLaunchConfig(), 0, 1), "local.worker.vllm.launch.gpus=[]");
}

// Listens on the port as vLLM does.
bool Listens(int port, OwnedFd& fd) {
  fd = OwnedFd(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

TEST(VllmServerTest, AReservedPortCanBeListenedOnAgainAndAgainByItsServer) {
  const Result<ReservedPort> reserved = ReservedPort::Take();
  ASSERT_TRUE(reserved.ok()) << reserved.status().ToString();
  for (int start = 0; start < 3; ++start) {
    OwnedFd fd;
    EXPECT_TRUE(Listens(reserved->port(), fd)) << start;
  }
}

}  // namespace
}  // namespace buttress
