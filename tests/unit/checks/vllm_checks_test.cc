// Runs with a driver that has FAKE_GPUS devices (tests/support/fakes/fake_cuda_driver.cc).
#include "lib/checks/vllm_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VllmChecksTest : public ::testing::Test {
 protected:
  VllmChecksTest() {
    ::setenv("FAKE_GPUS", "4", 1);
    ::setenv("FAKE_GPU_GIB", "16", 1);
    ::unsetenv("FAKE_GPUS_FAIL");
    launch_.binary = Install("0.26.0+cpu");
    config_.local.worker.engine = EngineKind::kVllm;
    config_.run.model.dtype = ModelDtype::kBfloat16;
    model_.parameters = 500000000;
    model_.config.emplace().blocks.resize(2);
    for (BlockSpec& block : model_.config->blocks) {
      block.attention.H = 14;
      block.attention.K = 2;
    }
  }

  // A virtual environment with the program and, unless `version` is empty, the package.
  std::string Install(const std::string& version) {
    namespace fs = std::filesystem;
    const fs::path env = fs::path(dir_.path()) / ("env-" + version);
    fs::create_directories(env / "bin");
    if (!version.empty())
      fs::create_directories(env / "lib/python3.11/site-packages" /
                             ("vllm-" + version + ".dist-info"));
    std::ofstream(env / "bin/vllm") << "#!/bin/sh\n";
    fs::permissions(env / "bin/vllm", fs::perms::owner_all);
    return (env / "bin/vllm").string();
  }

  Findings Check(const ProcessCounts& here = {1, 1}) const {
    Findings findings;
    CheckVllmLaunch(config_, model_, here, findings);
    return findings;
  }

  std::string Errors(const ProcessCounts& here = {1, 1}) const {
    return Check(here).Verdict().message();
  }

  TempDir dir_;
  RunConfig config_;
  VllmLaunchConfig& launch_ = config_.local.worker.vllm.launch;
  ModelFacts model_;
};

TEST_F(VllmChecksTest, TheProgramIsThereAndNewEnough) {
  EXPECT_EQ(Errors(), "");
  EXPECT_THAT(Check().list().front().text, HasSubstr("is vLLM 0.26.0+cpu"));
  launch_.binary = Install("0.15.2");
  EXPECT_THAT(Errors(), HasSubstr("is vLLM 0.15.2; expected 0.16 or newer: install one by"));
  launch_.binary = Install("");
  EXPECT_EQ(Errors(), "");
  EXPECT_THAT(Check().list().front().text, HasSubstr("its version is not known"));
  launch_.binary = dir_.path() + "/none/vllm";
  EXPECT_THAT(Errors(), HasSubstr("/none/vllm; `deploy/setup.sh --vllm DIR` installs vLLM"));
}

TEST_F(VllmChecksTest, TransfersNeedANewServerAndAGpuOfTheWorker) {
  config_.local.worker.vllm.weights = VllmWeights::kNccl;
  EXPECT_THAT(Errors(), HasSubstr("nccl, and " + launch_.binary +
                                  " is vLLM 0.26.0+cpu; install "
                                  "0.32 or newer"));
  launch_.binary = Install("0.32.0");
  EXPECT_EQ(Errors(), "");
  config_.local.worker.vllm.transfer.gpu = 4;
  EXPECT_THAT(Errors(), HasSubstr("GPU 4 is not there: 4 are visible"));
  config_.local.worker.vllm.weights = VllmWeights::kIpc;
  EXPECT_EQ(Errors(), "");  // servers that are started have GPUs of their own
  launch_.binary = Install("0.31.0");
  EXPECT_THAT(Errors(), HasSubstr("ipc, and " + launch_.binary + " is vLLM 0.31.0; install 0.32"));
}

TEST_F(VllmChecksTest, ARunThatStartsServersNamesNoneAndHasAtMostAWorkerForEach) {
  config_.local.worker.vllm.servers = {"http://127.0.0.1:8000"};
  EXPECT_THAT(Errors(), HasSubstr("leave out the servers, which launch names"));
  config_.local.worker.vllm.servers.clear();
  EXPECT_THAT(Errors({2, 1}), HasSubstr("2 workers on this machine share 1 vLLM servers"));
  launch_.gpus = {1, 2};
  EXPECT_EQ(Errors({2, 1}), "");
}

TEST_F(VllmChecksTest, GpusAreThereAndNotThoseOfTheLearner) {
  launch_.gpus = {2, 4};
  EXPECT_THAT(Errors(), HasSubstr("GPU 4 is not there: 4 are visible"));
  launch_.gpus = {1, 2, 3};
  EXPECT_EQ(Errors({1, 2}), "");  // the ranks compute on CPUs
  config_.local.learner.device = ComputeDevice::kCuda;
  EXPECT_THAT(Errors({1, 2}), HasSubstr("the 2 learner ranks of this machine take GPUs 0 to 1, and "
                                        "[1] are among them; name GPUs from 2 on"));
  EXPECT_EQ(Errors({1, 1}), "");
  ::setenv("FAKE_GPUS_FAIL", "1", 1);
  EXPECT_THAT(Errors({1, 1}), HasSubstr("leave gpus out for a server on the CPU"));
}

TEST_F(VllmChecksTest, AServerThatTakesTurnsFitsBesideARank) {
  launch_.gpus = {0};
  launch_.colocate = true;
  launch_.args = {"--gpu-memory-utilization", "0.6"};
  config_.local.learner.device = ComputeDevice::kCuda;
  EXPECT_THAT(Errors(), HasSubstr("is vLLM 0.26.0+cpu; install 0.32 or newer"));
  launch_.binary = Install("0.32.0");
  model_.config->vocab_size = 32000;
  model_.config->hidden_size = 896;
  model_.config->max_positions = 4096;
  for (BlockSpec& block : model_.config->blocks) {
    block.D = 896;
    block.F = 4864;
    block.attention.C = 64;
  }
  EXPECT_EQ(Errors(), "");
  EXPECT_THAT(Check().list().back().text,
              HasSubstr("a server takes 9.6 GiB (--gpu-memory-utilization 0.6)"));
  launch_.args = {"--gpu-memory-utilization=0.99"};
  EXPECT_THAT(Errors(), AllOf(HasSubstr("a learner rank keeps"),
                              HasSubstr("set launch.args: [--gpu-memory-utilization, \"0.")));
  launch_.args.clear();
  model_.config->blocks.resize(60, model_.config->blocks.front());
  EXPECT_THAT(Errors(), HasSubstr("a server takes 14.4 GiB"));
}

TEST_F(VllmChecksTest, HeadsAndWeightsAreDividedByTheGpusOfAServer) {
  launch_.gpus = {0, 1, 2, 3};
  launch_.tensor_parallel = 4;
  EXPECT_THAT(Errors(), HasSubstr("4 GPUs cannot divide the 14 heads and 2 key-value heads"));
  launch_.tensor_parallel = 2;
  EXPECT_EQ(Errors(), "");
  model_.parameters = 20000000000;
  EXPECT_THAT(Errors(), AllOf(HasSubstr("the weights take 18.6 GiB of the 14.4 GiB that vLLM uses"),
                              HasSubstr("raise local.worker.vllm.launch.tensor_parallel")));
}

TEST_F(VllmChecksTest, AdaptersHaveARankThatVllmTakes) {
  EXPECT_EQ(VllmLoraRank(1), 1);
  EXPECT_EQ(VllmLoraRank(12), 16);
  EXPECT_EQ(VllmLoraRank(512), 512);
  config_.run.lora.rank = 600;
  EXPECT_THAT(Errors(), HasSubstr("600; vLLM takes 512 at most"));
}

TEST_F(VllmChecksTest, WhereNoServerStartsNothingIsChecked) {
  launch_.binary = "/none/vllm";
  EXPECT_TRUE(Check({0, 1}).list().empty());
  launch_.binary.clear();
  EXPECT_TRUE(Check().list().empty());
  EXPECT_EQ(LaunchedServers(launch_), 0);
}

}  // namespace
}  // namespace buttress
