// The vllm engine against a real vLLM: its log-probs are those of our own model, and it does as
// rollout_worker/vllm believes.
//
// BUTTRESS_VLLM_URL: a server as README.md starts one; BUTTRESS_VLLM_MODEL: the folder that it was
// started on; BUTTRESS_VLLM_DTYPE: what it and our model compute in, float32 (default) or bfloat16;
// BUTTRESS_VLLM_API_KEY_FILE: its key. BUTTRESS_VLLM_REFUSED_URL: a server with vLLM's own
// defaults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "learner/output/publication.h"
#include "lib/base/text/random.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"
#include "lib/weights/publisher.h"
#include "rollout_worker/vllm/vllm_engine.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr double kTemperature = 0.7;
constexpr std::int32_t kCompletions = 64;

// Differences of tokens' log-probs, nats.
struct Difference {
  double sum = 0;
  double largest = 0;
  std::int64_t tokens = 0;

  double mean() const { return sum / static_cast<double>(tokens); }
};

// What they may be with the same precision on both sides; seen: 1e-6 and 1e-5 in float32, 0.008 and
// 0.07 in bfloat16, where our own log-probs are 0.008 and 0.1 from those that float32 gives for the
// same weights.
struct SameLogprobs {
  double mean;
  double largest;
};

constexpr SameLogprobs kFloat32 = {1e-5, 1e-4};
constexpr SameLogprobs kBfloat16 = {0.02, 0.25};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

class VllmOracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.servers = {Environment("BUTTRESS_VLLM_URL")};
    if (config_.servers[0].empty())
      GTEST_SKIP() << "needs a running vLLM; tests/run.sh --with-vllm starts one";
    config_.api_key_file = Environment("BUTTRESS_VLLM_API_KEY_FILE");
    path_.path = Environment("BUTTRESS_VLLM_MODEL");
    if (const std::string dtype = Environment("BUTTRESS_VLLM_DTYPE"); !dtype.empty())
      dtype_ = *FindChoice<ModelDtype>(dtype);
    model_ = *Transformer::Load(path_.path, dtype_, {});
    exact_ = *Transformer::Load(path_.path, ModelDtype::kFloat32, {});
    publisher_ = *WeightPublisher::Create({.folder = dir_.path()});
  }

  void StartEngine() {
    auto engine = MakeVllmEngine(path_, config_, PolicyVersion());
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = *std::move(engine);
  }

  // The model as it is, with its canaries.
  WeightManifest Publish(std::uint64_t step) {
    const auto files = DivideWeights(DeclaredTensors(model_->parameters()));
    EXPECT_TRUE(publisher_->Begin({1, step, ""}, files).ok());
    const auto written =
        WriteWeightFiles(publisher_->folder(), files, BytesByName(model_->parameters()));
    return *publisher_->Commit(*written, *GreedyCanaries(*model_));
  }

  void ChangeWeights() {
    const at::NoGradGuard no_grad;
    torch::manual_seed(1);
    for (const auto& [name, tensor] : model_->parameters())
      at::Tensor(tensor).add_(torch::randn_like(tensor), 0.02);
  }

  SampleRequest Request(std::int32_t index) const {
    SampleRequest request;
    request.id = {1, 1, index};
    for (std::uint64_t i = 0; i < 9; ++i) {
      request.prompt_token_ids.push_back(
          static_cast<std::int32_t>(MixSeed(static_cast<std::uint64_t>(index), i) %
                                    static_cast<std::uint64_t>(model_->config().vocab_size)));
    }
    request.sampling.temperature = kTemperature;
    request.sampling.max_tokens = 8;
    request.sampling.seed = MixSeed(77, static_cast<std::uint64_t>(index));
    return request;
  }

  // `model`'s log-probs of a completion at that temperature.
  static at::Tensor Logprobs(Transformer& model, const SampleRequest& request,
                             const EngineResult& completion) {
    const at::NoGradGuard no_grad;
    std::vector<std::int64_t> tokens(request.prompt_token_ids.begin(),
                                     request.prompt_token_ids.end());
    const auto first = static_cast<std::int64_t>(tokens.size()) - 1;
    tokens.insert(tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
    const auto count = static_cast<std::int64_t>(completion.token_ids.size());
    const std::int64_t lengths[] = {static_cast<std::int64_t>(tokens.size())};
    const at::Tensor tokens_N = torch::tensor(tokens, at::kLong);
    const at::Tensor hidden_ND = model.Hidden(tokens_N, lengths);
    return ScoreTokens(model, hidden_ND.narrow(0, first, count),
                       tokens_N.narrow(0, first + 1, count), {kTemperature})
        .logprobs_M;
  }

  static void Add(const at::Tensor& a_M, const at::Tensor& b_M, Difference& difference) {
    const at::Tensor apart_M = (a_M - b_M).abs().to(at::kDouble);
    difference.sum += apart_M.sum().item<double>();
    difference.largest = std::max(difference.largest, apart_M.max().item<double>());
    difference.tokens += apart_M.numel();
  }

  // The same weights, computed with in float32.
  void TakeOverExactWeights() {
    const at::NoGradGuard no_grad;
    const auto exact = exact_->parameters();
    const auto rounded = model_->parameters();
    for (std::size_t i = 0; i < exact.size(); ++i)
      at::Tensor(exact[i].second).copy_(rounded[i].second);
  }

  // Completes prompts under the weights that the server has now, which are the model's.
  void ExpectOurLogprobs(const PolicyVersion& version) {
    for (std::int32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(engine_->Submit(Request(i)).ok());
    TakeOverExactWeights();
    Difference from_ours, from_exact, ours_from_exact;
    for (std::int32_t ended = 0; ended < kCompletions;) {
      const auto results = engine_->Poll(std::chrono::seconds(60));
      ASSERT_FALSE(results.empty()) << "nothing in a minute";
      for (const EngineResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status.ToString();
        EXPECT_EQ(result.segments, (std::vector<Segment>{{0, version}}));
        const SampleRequest request = Request(result.id.index);
        const at::Tensor theirs_M = torch::tensor(result.logprobs);
        const at::Tensor ours_M = Logprobs(*model_, request, result);
        const at::Tensor exact_M = Logprobs(*exact_, request, result);
        Add(theirs_M, ours_M, from_ours);
        Add(theirs_M, exact_M, from_exact);
        Add(ours_M, exact_M, ours_from_exact);
        ++ended;
      }
    }
    const auto text = [](const Difference& difference) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "%.2g nats on average, %.2g at most", difference.mean(),
                    difference.largest);
      return std::string(buffer);
    };
    std::printf(
        "policy %s, %s, log-probs of %lld tokens at temperature %.1f: from ours %s; from ours in "
        "float32 %s (ours: %s); canaries %.2g\n",
        ToString(version).c_str(), std::string(ChoiceName(dtype_)).c_str(),
        static_cast<long long>(from_ours.tokens), kTemperature, text(from_ours).c_str(),
        text(from_exact).c_str(), text(ours_from_exact).c_str(),
        engine_->stats().canary_difference);
    const SameLogprobs bound = dtype_ == ModelDtype::kFloat32 ? kFloat32 : kBfloat16;
    EXPECT_LE(from_ours.mean(), bound.mean);
    EXPECT_LE(from_ours.largest, bound.largest);
  }

  VllmConfig config_;
  ModelPathConfig path_;
  TempDir dir_;
  ModelDtype dtype_ = ModelDtype::kFloat32;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Transformer> exact_;  // model_'s weights in float32
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<InferenceEngine> engine_;
};

TEST_F(VllmOracleTest, LogprobsAtATemperatureAreOurModelsBeforeAndAfterAWeightUpdate) {
  ASSERT_NO_FATAL_FAILURE(StartEngine());
  for (std::uint64_t step = 0; step < 2; ++step) {
    const WeightManifest manifest = Publish(step);
    const Status updated = engine_->UpdateWeights(manifest);
    ASSERT_TRUE(updated.ok()) << updated.ToString();
    ExpectOurLogprobs(manifest.version);
    ChangeWeights();
  }
}

TEST_F(VllmOracleTest, WeightsThatTheServerDidNotTakeAreNoticed) {
  ASSERT_NO_FATAL_FAILURE(StartEngine());
  const WeightManifest first = Publish(0);
  ASSERT_TRUE(engine_->UpdateWeights(first).ok());
  ChangeWeights();
  WeightManifest second = Publish(1);
  second.folder = first.folder;
  EXPECT_THAT(engine_->UpdateWeights(second).message(), HasSubstr("still serves policy 1:0"));
  EXPECT_EQ(engine_->stats().unchanged_weights, 1);
  EXPECT_EQ(engine_->version(), first.version);
}

TEST_F(VllmOracleTest, CompletionsInFlightGoOnUnderNewWeightsAndACancelledOneEnds) {
  ASSERT_NO_FATAL_FAILURE(StartEngine());
  ASSERT_TRUE(engine_->UpdateWeights(Publish(0)).ok());
  for (std::int32_t i = 0; i < kCompletions; ++i) ASSERT_TRUE(engine_->Submit(Request(i)).ok());
  engine_->Cancel(Request(kCompletions - 1).id);
  ChangeWeights();
  const Status updated = engine_->UpdateWeights(Publish(1));
  ASSERT_TRUE(updated.ok()) << updated.ToString();
  for (std::int32_t ended = 0; ended < kCompletions;) {
    const auto results = engine_->Poll(std::chrono::seconds(60));
    ASSERT_FALSE(results.empty()) << "nothing in a minute";
    for (const EngineResult& result : results) {
      const bool cancelled =
          result.id.index == kCompletions - 1 && result.finish_reason == FinishReason::kAbort;
      EXPECT_TRUE(result.status.ok() || cancelled) << result.status.ToString();
      EXPECT_EQ(result.token_ids.size(), result.logprobs.size());
      ++ended;
    }
  }
}

TEST_F(VllmOracleTest, TheApiKeyIsAskedFor) {
  if (config_.api_key_file.empty()) GTEST_SKIP() << "the server was started without a key";
  config_.api_key_file.clear();
  EXPECT_EQ(MakeVllmEngine(path_, config_, PolicyVersion()).status().code(),
            StatusCode::kUnauthenticated);
}

TEST_F(VllmOracleTest, AServerWithItsOwnDefaultsIsRefusedWithTheFlagsToSet) {
  config_.servers = {Environment("BUTTRESS_VLLM_REFUSED_URL")};
  if (config_.servers[0].empty()) GTEST_SKIP() << "BUTTRESS_VLLM_REFUSED_URL is not set";
  const Status refused = MakeVllmEngine(path_, config_, PolicyVersion()).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(),
              HasSubstr("--generation-config vllm --logprobs-mode processed_logprobs"));
}

}  // namespace
}  // namespace buttress
