#include "lib/policy/cached_decoder.h"

#include <torch/types.h>

#include "lib/policy/norm.h"
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
  for (const bool batch_invariant : {false, true}) {
    CachedDecoder decoder(*model, batch_invariant);
    KvCache cache(config, at::kBFloat16, decoder.device(), 4);
    ASSERT_EQ(cache.Allocate(4).size(), 4u);
    const at::Tensor hidden = decoder.Run(rows, AttendTo::kRows, cache);
    const at::Tensor logits = decoder.Logits(hidden).to(at::kDouble);
    const at::Tensor normed =
        RmsNorm(hidden, model->weights().final_norm_D, config.final_norm).to(at::kDouble);
    const at::Tensor exact = at::mm(normed, model->weights().head_VD.to(at::kDouble).t());
    EXPECT_GT(exact.abs().max().item<double>(), 16);
    EXPECT_LT(MaxDifference(logits, exact), 1e-4);
  }
}

}  // namespace
}  // namespace buttress
