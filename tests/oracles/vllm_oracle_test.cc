// The vllm engine against a real vLLM: its log-probs are those of our own model, and it does as rollout_worker/vllm believes.
//
// BUTTRESS_VLLM_URL: a server as README.md starts one; BUTTRESS_VLLM_MODEL: the folder that it was started on, float32;
// BUTTRESS_VLLM_API_KEY_FILE: its key. BUTTRESS_VLLM_REFUSED_URL: a server with vLLM's own defaults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "learner/canaries.h"
#include "lib/base/random.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"
#include "lib/weights/transport.h"
#include "rollout_worker/vllm/vllm_engine.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr double kTemperature = 0.7;
constexpr std::int32_t kCompletions = 64;
// Largest difference of one token's log-prob, nats, float32 on both sides; 4e-6 was seen.
constexpr double kSameLogprob = 1e-4;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

class VllmOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.servers = {Environment("BUTTRESS_VLLM_URL")};
    if (config_.servers[0].empty()) GTEST_SKIP() << "needs a running vLLM; tests/run.sh --with-vllm starts one";
    config_.api_key_file = Environment("BUTTRESS_VLLM_API_KEY_FILE");
    path_.path = Environment("BUTTRESS_VLLM_MODEL");
    model_ = *Transformer::Load(path_.path, "float32", {});
    publisher_ = *MakeFolderPublisher({.folder = dir_.path(), .durable = false, .sources = {}});
  }

  void StartEngine() {
    auto engine = MakeVllmEngine(path_, config_, PolicyVersion());
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = *std::move(engine);
  }

  // The model as it is, with its canaries.
  WeightManifest Publish(std::uint64_t step) {
    std::vector<SafetensorsWriter::Declared> table;
    for (const auto& [name, tensor] : model_->parameters())
      table.push_back({name, SafetensorsDtype(tensor), tensor.sizes().vec()});
    EXPECT_TRUE(publisher_->Begin({1, step, ""}, table).ok());
    for (const auto& [name, tensor] : model_->parameters()) {
      at::Tensor storage;
      EXPECT_TRUE(publisher_->Put(name, TensorBytes(tensor, storage)).ok());
    }
    return *publisher_->Commit(*GreedyCanaries(*model_));
  }

  void ChangeWeights() {
    const at::NoGradGuard no_grad;
    torch::manual_seed(1);
    for (const auto& [name, tensor] : model_->parameters()) at::Tensor(tensor).add_(torch::randn_like(tensor), 0.02);
  }

  SampleRequest Request(std::int32_t index) const {
    SampleRequest request;
    request.id = {1, 1, index};
    for (std::uint64_t i = 0; i < 9; ++i) {
      request.prompt_token_ids.push_back(
          static_cast<std::int32_t>(MixSeed(static_cast<std::uint64_t>(index), i) % static_cast<std::uint64_t>(model_->config().vocab_size)));
    }
    request.sampling.temperature = kTemperature;
    request.sampling.max_tokens = 8;
    request.sampling.seed = MixSeed(77, static_cast<std::uint64_t>(index));
    return request;
  }

  // Largest difference of a sampled token's log-prob from our model's at that temperature.
  double LargestDifference(const SampleRequest& request, const Completion& completion) {
    const at::NoGradGuard no_grad;
    std::vector<std::int64_t> tokens(request.prompt_token_ids.begin(), request.prompt_token_ids.end());
    const auto first = static_cast<std::int64_t>(tokens.size()) - 1;
    tokens.insert(tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
    const auto count = static_cast<std::int64_t>(completion.token_ids.size());
    const std::int64_t lengths[] = {static_cast<std::int64_t>(tokens.size())};
    const at::Tensor tokens_N = torch::tensor(tokens, at::kLong);
    const at::Tensor hidden_ND = model_->Hidden(tokens_N, lengths);
    const at::Tensor logprobs_M =
        ChunkedLogprobs(*model_, hidden_ND.narrow(0, first, count), tokens_N.narrow(0, first + 1, count), kTemperature, count,
                        EntropyMode::kNone)
            .logprobs_M;
    return (logprobs_M - torch::tensor(completion.logprobs)).abs().max().item<double>();
  }

  // Completes prompts under the weights that the server has now, which are the model's.
  void ExpectOurLogprobs(const PolicyVersion& version) {
    for (std::int32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(engine_->Submit(Request(i)).ok());
    double largest = 0;
    std::size_t tokens = 0;
    for (std::int32_t ended = 0; ended < kCompletions;) {
      const auto results = engine_->Poll(std::chrono::seconds(60));
      ASSERT_FALSE(results.empty()) << "nothing in a minute";
      for (const EngineResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status.ToString();
        EXPECT_EQ(result.completion.segments, (std::vector<Segment>{{0, version}}));
        largest = std::max(largest, LargestDifference(Request(result.id.index), result.completion));
        tokens += result.completion.token_ids.size();
        ++ended;
      }
    }
    std::printf("policy %s: log-probs of %zu tokens at temperature %.1f differ from ours by at most %.2g nats; canaries by %.2g\n",
                ToString(version).c_str(), tokens, kTemperature, largest, engine_->stats().canary_difference);
    EXPECT_LE(largest, kSameLogprob);
  }

  VllmConfig config_;
  ModelPathConfig path_;
  TempDir dir_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<InferenceEngine> engine_;
};

TEST_F(VllmOracleTest, LogprobsAtATemperatureAreOurModelsBeforeAndAfterAWeightUpdate) {
  StartEngine();
  for (std::uint64_t step = 0; step < 2; ++step) {
    const WeightManifest manifest = Publish(step);
    const Status updated = engine_->UpdateWeights(manifest, InFlight::kKeep);
    ASSERT_TRUE(updated.ok()) << updated.ToString();
    ExpectOurLogprobs(manifest.version);
    ChangeWeights();
  }
}

TEST_F(VllmOracleTest, WeightsThatTheServerDidNotTakeAreNoticed) {
  StartEngine();
  const WeightManifest first = Publish(0);
  ASSERT_TRUE(engine_->UpdateWeights(first, InFlight::kKeep).ok());
  ChangeWeights();
  WeightManifest second = Publish(1);
  second.folder = first.folder;
  EXPECT_THAT(engine_->UpdateWeights(second, InFlight::kKeep).message(), HasSubstr("still serves policy 1:0"));
  EXPECT_EQ(engine_->stats().unchanged_weights, 1);
  EXPECT_EQ(engine_->version(), first.version);
}

TEST_F(VllmOracleTest, CompletionsInFlightGoOnUnderNewWeightsAndACancelledOneEnds) {
  StartEngine();
  ASSERT_TRUE(engine_->UpdateWeights(Publish(0), InFlight::kKeep).ok());
  for (std::int32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(engine_->Submit(Request(i)).ok());
  engine_->Cancel(Request(kCompletions - 1).id);
  ChangeWeights();
  const Status updated = engine_->UpdateWeights(Publish(1), InFlight::kKeep);
  ASSERT_TRUE(updated.ok()) << updated.ToString();
  for (std::int32_t ended = 0; ended < kCompletions;) {
    const auto results = engine_->Poll(std::chrono::seconds(60));
    ASSERT_FALSE(results.empty()) << "nothing in a minute";
    for (const EngineResult& result : results) {
      const bool cancelled = result.id.index == kCompletions - 1 && result.completion.finish_reason == FinishReason::kAbort;
      EXPECT_TRUE(result.status.ok() || cancelled) << result.status.ToString();
      EXPECT_EQ(result.completion.token_ids.size(), result.completion.logprobs.size());
      ++ended;
    }
  }
}

TEST_F(VllmOracleTest, TheApiKeyIsAskedFor) {
  if (config_.api_key_file.empty()) GTEST_SKIP() << "the server was started without a key";
  config_.api_key_file.clear();
  EXPECT_EQ(MakeVllmEngine(path_, config_, PolicyVersion()).status().code(), StatusCode::kUnauthenticated);
}

TEST_F(VllmOracleTest, AServerWithItsOwnDefaultsIsRefusedWithTheFlagsToSet) {
  config_.servers = {Environment("BUTTRESS_VLLM_REFUSED_URL")};
  if (config_.servers[0].empty()) GTEST_SKIP() << "BUTTRESS_VLLM_REFUSED_URL is not set";
  const Status refused = MakeVllmEngine(path_, config_, PolicyVersion()).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("--generation-config vllm --logprobs-mode processed_logprobs"));
}

}  // namespace
}  // namespace buttress
