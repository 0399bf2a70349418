#include "lib/policy/decode/cached_decoder.h"

#include <torch/types.h>

#include <future>
#include <latch>

#include "lib/policy/exception_status.h"
#include "lib/policy/layers/norm.h"
#include "tests/support/live_bytes.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

// Rounded to bfloat16, a logit between 16 and 32 would be up to 1/16 away.
TEST(CachedDecoderTest, LogitsOfBFloat16AreNotRounded) {
  const auto model = GoldenModel("qwen2_untied", ModelDtype::kBfloat16);
  const ModelConfig& config = model->config();
  const at::NoGradGuard no_grad;
  at::Tensor(model->weights().head_VD).mul_(8);
  std::vector<std::int32_t> blocks = {0, 1, 2, 3};
  std::vector<CacheRow> rows;
  for (std::int32_t t = 0; t < 40; ++t) rows.push_back({(7 * t * t + 3) % 128, t, blocks.data()});
  CachedDecoder decoder(*model);
  KvCache cache(config, at::kBFloat16, decoder.device(), 4);
  ASSERT_EQ(cache.Allocate(4).size(), 4u);
  const at::Tensor hidden = decoder.Run(rows, {std::ssize(rows)}, cache);
  const at::Tensor logits = decoder.Logits(hidden).to(at::kDouble);
  const at::Tensor normed =
      RmsNorm(hidden, model->weights().final_norm_D, config.final_norm).to(at::kDouble);
  const at::Tensor exact = at::mm(normed, model->weights().head_VD.to(at::kDouble).t());
  EXPECT_GT(exact.abs().max().item<double>(), 16);
  EXPECT_LT(MaxDifference(logits, exact), 1e-4);
}

// A folder whose matrices come block by block, and a model that holds all of them.
TEST(CachedDecoderTest, StoredWeightsGiveTheLogitsOfTheModel) {
  for (const std::string name : {"qwen2_tiny", "qwen2_untied", "qwen3_moe"}) {
    const auto model = GoldenModel(name);
    const ModelConfig& config = model->config();
    std::vector<std::int32_t> blocks = {0, 1, 2, 3};
    std::vector<CacheRow> rows;
    for (std::int32_t t = 0; t < 9; ++t) rows.push_back({5 * t + 1, t, blocks.data()});
    const auto logits = [&](CachedDecoder& decoder) {
      KvCache cache(config, decoder.dtype(), decoder.device(), 4);
      EXPECT_EQ(cache.Allocate(4).size(), 4u);
      return decoder.Logits(decoder.Run(rows, {std::ssize(rows)}, cache)).clone();
    };
    CachedDecoder of_model(*model);
    CachedDecoder of_folder(config, at::kFloat, at::kCPU);
    EXPECT_THROW(logits(of_folder), c10::Error);  // it has no weights
    const auto stored = StoredWeights::Open(GoldenFolder(name), config, at::kFloat, at::kCPU);
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    of_folder.SetWeights(*stored);
    EXPECT_TRUE(logits(of_folder).equal(logits(of_model))) << name;
  }
}

// The parts of a model, the second of whose blocks waits until the test lets it pass, or fails.
class GatedParts final : public WeightParts {
 public:
  explicit GatedParts(const StoredWeights& parts) : parts_(parts) {}

  at::Tensor Embedding() const override { return parts_.Embedding(); }

  LayerWeights Block(std::size_t layer) const override {
    if (layer == 1) {
      reached.count_down();
      if (!pass.get_future().get()) throw StatusError(DataLoss("a damaged file"));
    }
    return parts_.Block(layer);
  }

  at::Tensor FinalNorm() const override { return parts_.FinalNorm(); }

  at::Tensor Head() const override { return parts_.Head(); }

  mutable std::latch reached{1};
  mutable std::promise<bool> pass;

 private:
  const StoredWeights& parts_;
};

// While new weights are packed, and after that has failed, the decoder gives the bits of the old.
TEST(CachedDecoderTest, OldWeightsRunWhileNewOnesArePacked) {
  const auto model = GoldenModel("qwen2_tiny");
  const auto other = Transformer::Random(model->config(), ModelDtype::kFloat32, {}, 7);
  ASSERT_TRUE(other.ok());
  const TempDir dir;
  ASSERT_TRUE(SaveModelFolder(**other, GoldenFolder("qwen2_tiny"), dir.path()).ok());
  const auto stored = StoredWeights::Open(dir.path(), model->config(), at::kFloat, at::kCPU);
  ASSERT_TRUE(stored.ok()) << stored.status().ToString();
  const std::vector<std::int32_t> blocks = {0};
  std::vector<CacheRow> rows;
  for (std::int32_t t = 0; t < 9; ++t) rows.push_back({5 * t + 1, t, blocks.data()});
  const auto logits = [&](CachedDecoder& decoder) {
    KvCache cache(model->config(), at::kFloat, at::kCPU, 1);
    EXPECT_EQ(cache.Allocate(1).size(), 1u);
    return decoder.Logits(decoder.Run(rows, {}, cache)).clone();
  };
  CachedDecoder decoder(*model);
  const at::Tensor old = logits(decoder);
  for (const bool whole : {false, true}) {
    const GatedParts gated(*stored);
    auto packed = std::async(std::launch::async, [&] { return decoder.Pack(gated); });
    gated.reached.wait();
    EXPECT_TRUE(logits(decoder).equal(old));
    gated.pass.set_value(whole);
    if (whole) {
      decoder.SetWeights(packed.get());
    } else {
      EXPECT_THROW(packed.get(), StatusError);
      EXPECT_TRUE(logits(decoder).equal(old));
    }
  }
  CachedDecoder of_other(**other);
  EXPECT_TRUE(logits(decoder).equal(logits(of_other)));
}

// Adapters next to the weights give what merged weights give, and the bits of a row depend on
// nothing else where the decoder is batch-invariant.
TEST(CachedDecoderTest, AdaptersActAsMergedWeights) {
  const auto model = GoldenModel("qwen2_untied");
  const ModelConfig& config = model->config();
  std::vector<std::int32_t> blocks = {0, 1, 2, 3};
  std::vector<CacheRow> rows;
  for (std::int32_t t = 0; t < 40; ++t) rows.push_back({(5 * t + 1) % 128, t, blocks.data()});
  const auto logits = [&](CachedDecoder& decoder, std::size_t count) {
    KvCache cache(config, decoder.dtype(), decoder.device(), 4);
    EXPECT_EQ(cache.Allocate(4).size(), 4u);
    const std::span<const CacheRow> first(rows.data(), count);
    return decoder.Logits(decoder.Run(first, {std::ssize(first)}, cache)).clone();
  };
  CachedDecoder decoder(*model);
  const at::Tensor before = logits(decoder, 40);
  Adapters adapters = DrawnAdapters({.rank = 2}, config, 1);
  decoder.SetAdapters(adapters);  // whose B is 0
  EXPECT_TRUE(logits(decoder, 40).equal(before));
  for (const auto& [name, tensor] : NamedAdapters(adapters, config))
    if (name.ends_with("lora_B.weight")) at::Tensor(tensor).fill_(0.02);
  decoder.SetAdapters(adapters);
  const at::Tensor adapted = logits(decoder, 40);
  EXPECT_GT(MaxDifference(adapted, before), 0.01);
  EXPECT_TRUE(logits(decoder, 7).equal(adapted.narrow(0, 0, 7)));
  const auto merged = GoldenModel("qwen2_untied");
  DecoderWeights weights = merged->weights();
  MergeAdapters(adapters, config, weights);
  CachedDecoder of_merged(*merged);
  EXPECT_LT(MaxDifference(logits(of_merged, 40), adapted), 1e-4);
}

// The decoder of a worker holds the embedding, and every matrix once: in its own layout.
TEST(CachedDecoderTest, StoredWeightsAreHeldOnce) {
  ModelConfig config = GoldenModel("qwen2_untied")->config();
  config.blocks.assign(4, config.blocks.front());
  for (BlockSpec& block : config.blocks) block.F = 4096;
  const TempDir dir;
  const auto model = Transformer::Random(config, ModelDtype::kFloat32, {}, 1);
  ASSERT_TRUE(model.ok());
  std::int64_t weights = 0;
  for (const auto& [name, tensor] : (*model)->parameters())
    weights += static_cast<std::int64_t>(tensor.nbytes());
  ASSERT_TRUE(SaveModelFolder(**model, GoldenFolder("qwen2_untied"), dir.path()).ok());
  const auto stored = StoredWeights::Open(dir.path(), config, at::kFloat, at::kCPU);
  ASSERT_TRUE(stored.ok()) << stored.status().ToString();
  CachedDecoder decoder(config, at::kFloat, at::kCPU);
  const LiveBytes bytes;
  for (int update = 0; update < 2; ++update) {
    decoder.SetWeights(*stored);
    EXPECT_LT(8 * bytes.now(), 9 * weights);     // blocks have rows of zeros
    EXPECT_LT(10 * bytes.peak(), 14 * weights);  // one of the four blocks as it is read
  }
}

}  // namespace
}  // namespace buttress
