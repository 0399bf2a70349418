#include "rollout_worker/embedded_engine.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <filesystem>
#include <map>

#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/transformer.h"
#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds kDeadline(30000);

std::string GoldenFolder() { return std::string(BUTTRESS_GOLDEN) + "/qwen2_tiny"; }

PolicyVersion Version(std::uint64_t step) {
  return {1, step, std::string(32, static_cast<char>('a' + step))};
}

class EmbeddedEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("engine_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    model_.path = GoldenFolder();
    worker_.max_running = 4;
    worker_.kv_cache_tokens = 4096;
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<InferenceEngine> MakeEngine(InFlight in_flight = InFlight::kRecompute) {
    auto engine = MakeEmbeddedEngine(model_, worker_, Version(0), &tokenizer_, in_flight);
    EXPECT_TRUE(engine.ok()) << engine.status().ToString();
    return *std::move(engine);
  }

  // Returns a folder with other weights of the same shapes.
  WeightManifest OtherWeights(std::uint64_t step) {
    const auto config = LoadModelConfig(GoldenFolder());
    const auto model = Transformer::Random(*config, ModelDtype::kFloat32, {}, step);
    const std::string folder = (folder_ / std::to_string(step)).string();
    EXPECT_TRUE(SaveModelFolder(**model, GoldenFolder(), folder).ok());
    WeightManifest manifest;
    manifest.version = Version(step);
    manifest.folder = folder;
    return manifest;
  }

  static SampleRequest Request(std::int32_t index, std::int32_t max_tokens) {
    SampleRequest request;
    request.id = {7, 1, index};
    request.prompt_token_ids = {1, 2, 3, 4, 5, 6};
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = static_cast<std::uint64_t>(index);
    return request;
  }

  // Polls until there are `count` results, and returns them by index.
  static std::map<std::int32_t, EngineResult> Collect(InferenceEngine& engine, std::size_t count) {
    std::map<std::int32_t, EngineResult> results;
    while (results.size() < count) {
      auto some = engine.Poll(kDeadline);
      if (some.empty()) break;
      for (EngineResult& result : some) results[result.id.index] = std::move(result);
    }
    EXPECT_EQ(results.size(), count);
    return results;
  }

  // Of the prompt of Request.
  static void ExpectLogprobsOf(Transformer& model, const EngineResult& completion) {
    std::vector<std::int64_t> tokens = {1, 2, 3, 4, 5, 6};
    tokens.insert(tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
    const at::NoGradGuard no_grad;
    const std::int64_t length = static_cast<std::int64_t>(tokens.size());
    const at::Tensor ids = torch::tensor(tokens, torch::kInt64);
    const std::int64_t generated = static_cast<std::int64_t>(completion.token_ids.size());
    const at::Tensor hidden = model.Hidden(ids, std::span(&length, 1)).narrow(0, 5, generated);
    const auto expected = ScoreTokens(model, hidden, ids.narrow(0, 6, generated), {});
    EXPECT_LT((expected.logprobs_M - torch::tensor(completion.logprobs)).abs().max().item<float>(),
              1e-4f);
  }

  std::filesystem::path folder_;
  ModelPathConfig model_;
  WorkerConfig worker_;
  const ByteTokenizer tokenizer_;
};

TEST_F(EmbeddedEngineTest, EverySampleEndsOnceWithAllOfItsFields) {
  const auto engine = MakeEngine();
  for (std::int32_t i = 0; i < 10; ++i) ASSERT_TRUE(engine->Submit(Request(i, 12)).ok());
  auto results = Collect(*engine, 10);
  for (const auto& [index, result] : results) {
    EXPECT_TRUE(result.status.ok());
    const EngineResult& completion = result;
    EXPECT_EQ(completion.token_ids.size(), completion.logprobs.size());
    EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, Version(0)}}));
    EXPECT_TRUE(completion.finish_reason == FinishReason::kStop ||
                completion.finish_reason == FinishReason::kLength);
  }
  EXPECT_TRUE(engine->Poll(std::chrono::milliseconds(0)).empty());
  EXPECT_EQ(engine->stats().running, 0);
  EXPECT_EQ(engine->stats().waiting, 0);
  EXPECT_EQ(engine->stats().prompt_tokens, 60);
}

TEST_F(EmbeddedEngineTest, ASampleThatCannotRunFailsAndTheOthersContinue) {
  const auto engine = MakeEngine();
  SampleRequest bad = Request(0, 4);
  bad.prompt_token_ids = {100000};
  ASSERT_TRUE(engine->Submit(bad).ok());
  ASSERT_TRUE(engine->Submit(Request(1, 4)).ok());
  auto results = Collect(*engine, 2);
  EXPECT_EQ(results[0].finish_reason, FinishReason::kError);
  EXPECT_EQ(results[0].status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(results[1].status.ok());
}

TEST_F(EmbeddedEngineTest, SamplesEndAtTheTokensAndTextsOfTheirSamplingAlone) {
  const auto engine = MakeEngine();
  SampleRequest free = Request(0, 40);
  free.sampling.temperature = 0;
  ASSERT_TRUE(engine->Submit(free).ok());
  const auto tokens = Collect(*engine, 1)[0].token_ids;
  ASSERT_EQ(tokens.size(), 40U);
  const std::string text = *tokenizer_.Decode(tokens, SpecialTokens::kKeep);

  SampleRequest by_token = free;
  by_token.id.index = 1;
  by_token.sampling.stop_token_ids = {tokens[4]};
  SampleRequest by_text = free;
  by_text.id.index = 2;
  by_text.sampling.stop = {text.substr(5, 3)};
  ASSERT_TRUE(engine->Submit(by_token).ok());
  ASSERT_TRUE(engine->Submit(by_text).ok());
  const auto results = Collect(*engine, 2);
  const auto& first = results.at(1);
  const auto& second = results.at(2);
  EXPECT_EQ(first.token_ids.size(), text.find(static_cast<char>(tokens[4])) + 1);
  EXPECT_EQ(second.token_ids.size(), text.find(by_text.sampling.stop[0]) + 3);
  EXPECT_EQ(first.finish_reason, FinishReason::kStop);
  EXPECT_EQ(second.finish_reason, FinishReason::kStop);
}

TEST_F(EmbeddedEngineTest, AFullQueueIsRefused) {
  const auto engine = MakeEngine();
  for (std::int32_t i = 0; i < 16; ++i)
    ASSERT_TRUE(
        engine->Submit(Request(i, 4)).ok());  // 4 * max_running samples, none of which is polled
  EXPECT_EQ(engine->Submit(Request(16, 4)).code(), StatusCode::kResourceExhausted);
  Collect(*engine, 16);
  EXPECT_TRUE(engine->Submit(Request(16, 4)).ok());
  Collect(*engine, 1);
}

TEST_F(EmbeddedEngineTest, ACancelledSampleEndsAborted) {
  const auto engine = MakeEngine();
  EngineResult ended;
  // On a busy machine a sample may end before this thread sees that it runs.
  for (int i = 0; i < 100 && ended.finish_reason != FinishReason::kAbort; ++i) {
    ASSERT_TRUE(engine->Submit(Request(0, 240)).ok());
    std::vector<EngineResult> results;
    while (engine->stats().running == 0 && results.empty())
      results = engine->Poll(std::chrono::milliseconds(0));
    engine->Cancel({7, 1, 0});
    engine->Cancel({7, 1, 99});
    ended = results.empty() ? Collect(*engine, 1)[0] : results[0];
    EXPECT_EQ(engine->stats().running, 0);
  }
  EXPECT_EQ(ended.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(ended.status.code(), StatusCode::kCancelled);
}

TEST_F(EmbeddedEngineTest, NewWeightsServeSamplesSubmittedAfterThem) {
  const auto engine = MakeEngine();
  const WeightManifest manifest = OtherWeights(3);
  ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
  EXPECT_EQ(engine->version(), Version(3));
  ASSERT_TRUE(engine->Submit(Request(0, 20)).ok());
  const EngineResult completion = Collect(*engine, 1)[0];
  EXPECT_EQ(completion.segments, (std::vector<Segment>{{0, Version(3)}}));

  ExpectLogprobsOf(**Transformer::Load(manifest.folder, ModelDtype::kFloat32, {}), completion);
}

// A version of adapters is added to the start model, and replaces the adapters before it.
TEST_F(EmbeddedEngineTest, AdaptersServeSamplesSubmittedAfterThem) {
  const auto model = Transformer::Load(GoldenFolder(), ModelDtype::kFloat32, {});
  ASSERT_TRUE(StartAdapters({.rank = 2}, 1, **model).ok());
  const auto engine = MakeEngine();
  WeightManifest manifest;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    {
      const at::NoGradGuard no_grad;
      for (const auto& [name, tensor] : (*model)->parameters())
        at::Tensor(tensor).add_(0.05 * static_cast<double>(step));
    }
    manifest.version = Version(step);
    manifest.folder = (folder_ / "adapters").string();
    ASSERT_TRUE(SaveModelFolder(**model, GoldenFolder(), manifest.folder).ok());
    ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
    ASSERT_TRUE(engine->Submit(Request(0, 20)).ok());
    ExpectLogprobsOf(**model, Collect(*engine, 1)[0]);
  }
}

TEST_F(EmbeddedEngineTest, SamplesInFlightHaveASegmentForEachVersion) {
  const auto engine = MakeEngine();
  WeightManifest manifest = OtherWeights(1);
  std::size_t crossed = 0;
  std::int32_t submitted = 0;
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  // The first attempt nearly always suffices: four samples run and twelve wait during the read.
  for (std::uint64_t step = 1; crossed == 0 && std::chrono::steady_clock::now() < deadline;
       ++step) {
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(engine->Submit(Request(submitted++, 240)).ok());
    std::vector<EngineResult> results = engine->Poll(kDeadline);
    manifest.version = Version(step);
    ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
    for (auto& [index, result] : Collect(*engine, 16 - results.size()))
      results.push_back(std::move(result));
    for (const EngineResult& result : results) {
      const std::vector<Segment>& segments = result.segments;
      if (segments.size() == 1) continue;
      ++crossed;
      ASSERT_THAT(segments, SizeIs(2));
      EXPECT_EQ(segments[0], (Segment{0, Version(step - 1)}));
      EXPECT_EQ(segments[1].version, Version(step));
      EXPECT_GT(segments[1].first_token, 0);
    }
  }
  EXPECT_GT(crossed, 0U) << "every sample ended before the new weights came";
}

// Submits eight samples, of which four run at once, and new weights after the first has ended.
TEST_F(EmbeddedEngineTest, ToDrainNewWeightsWaitForTheSamplesThatRun) {
  const auto engine = MakeEngine(InFlight::kDrain);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(engine->Submit(Request(i, 60 + i)).ok());
  ASSERT_TRUE(engine->UpdateWeights(OtherWeights(1)).ok());
  for (int i = 8; i < 12; ++i) ASSERT_TRUE(engine->Submit(Request(i, 20)).ok());
  for (const auto& [index, result] : Collect(*engine, 12)) {
    ASSERT_THAT(result.segments, SizeIs(1));
    if (index >= 8) {
      EXPECT_EQ(result.segments[0].version, Version(1));
    }
    EXPECT_EQ(result.token_ids.size(), index < 8 ? 60U + static_cast<std::size_t>(index) : 20U);
  }
  EXPECT_EQ(engine->stats().cut_tokens, 0);
}

TEST_F(EmbeddedEngineTest, ToAbortSamplesStartAgainUnderTheNewWeights) {
  const auto engine = MakeEngine(InFlight::kAbort);
  std::int64_t delivered = 0;
  std::int32_t submitted = 0;
  WeightManifest manifest = OtherWeights(1);
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  for (std::uint64_t step = 1;
       engine->stats().cut_tokens == 0 && std::chrono::steady_clock::now() < deadline; ++step) {
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(engine->Submit(Request(submitted++, 240)).ok());
    std::vector<EngineResult> results = engine->Poll(kDeadline);
    manifest.version = Version(step);
    ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
    for (auto& [index, result] : Collect(*engine, 16 - results.size()))
      results.push_back(std::move(result));
    for (const EngineResult& result : results) {
      EXPECT_THAT(result.segments, SizeIs(1));
      delivered += static_cast<std::int64_t>(result.token_ids.size());
    }
  }
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.cut_tokens, 0) << "every sample ended before the new weights came";
  EXPECT_EQ(stats.generated_tokens, delivered + stats.cut_tokens);
}

// The cache holds one sample and a half, so that samples wait while several versions come.
TEST_F(EmbeddedEngineTest, SegmentsHaveTokensAlsoOfSamplesThatWaited) {
  worker_.kv_cache_tokens = 400;
  const auto engine = MakeEngine();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(engine->Submit(Request(i, 240)).ok());
  WeightManifest manifest = OtherWeights(1);
  for (std::uint64_t step = 1; step <= 8; ++step) {
    manifest.version = Version(step);
    ASSERT_TRUE(engine->UpdateWeights(manifest).ok());
  }
  for (const auto& [index, result] : Collect(*engine, 8)) {
    ASSERT_FALSE(result.segments.empty());
    EXPECT_EQ(result.segments.front().first_token, 0);
    for (std::size_t i = 1; i < result.segments.size(); ++i) {
      EXPECT_GT(result.segments[i].first_token, result.segments[i - 1].first_token);
      EXPECT_TRUE(OlderThan(result.segments[i - 1].version, result.segments[i].version));
    }
  }
}

TEST_F(EmbeddedEngineTest, AWrongFolderChangesNothing) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Submit(Request(0, 20)).ok());
  const auto before = Collect(*engine, 1)[0].token_ids;
  WeightManifest manifest;
  manifest.version = Version(5);
  manifest.folder = std::string(BUTTRESS_GOLDEN) + "/qwen2_untied";
  const Status status = engine->UpdateWeights(manifest);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("model.embed_tokens.weight has shape"));
  EXPECT_EQ(engine->version(), Version(0));
  ASSERT_TRUE(engine->Submit(Request(0, 20)).ok());
  EXPECT_EQ(Collect(*engine, 1)[0].token_ids, before);
}

// A file that ends too early fails while samples are in flight, which continue as if nothing had
// been tried.
TEST_F(EmbeddedEngineTest, ADamagedFileLeavesTheSamplesInFlightAlone) {
  const auto engine = MakeEngine();
  const auto submit = [&] {
    for (int i = 0; i < 12; ++i) ASSERT_TRUE(engine->Submit(Request(i, 200)).ok());
  };
  submit();
  const auto before = Collect(*engine, 12);
  const WeightManifest manifest = OtherWeights(3);
  const std::string file = manifest.folder + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 5000);
  submit();
  EXPECT_EQ(engine->UpdateWeights(manifest).code(), StatusCode::kDataLoss);
  EXPECT_EQ(engine->version(), Version(0));
  for (const auto& [index, result] : Collect(*engine, 12)) {
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.token_ids, before.at(index).token_ids);
    EXPECT_EQ(result.logprobs, before.at(index).logprobs);
    EXPECT_EQ(result.segments, (std::vector<Segment>{{0, Version(0)}}));
  }
}

TEST_F(EmbeddedEngineTest, ABadModelFolderIsAStatus) {
  model_.path = "/nowhere";
  EXPECT_EQ(MakeEmbeddedEngine(model_, worker_, Version(0)).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace buttress
