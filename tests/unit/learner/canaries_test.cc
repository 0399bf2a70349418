#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>

#include "learner/output/publication.h"
#include "lib/policy/decode/generator.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

TEST(CanariesTest, AreComputedWhereAWorkerMayNeedThem) {
  LocalSettings local;
  EXPECT_FALSE(NeedsCanaries(local));
  local.worker.engine = EngineKind::kVllm;
  EXPECT_TRUE(NeedsCanaries(local));
}

TEST(CanariesTest, EqualTheGreedyCompletionsOfTheGenerator) {
  const auto model = SmallModel();
  const auto canaries = GreedyCanaries(*model);
  ASSERT_TRUE(canaries.ok()) << canaries.status().ToString();
  Generator generator(*model, {});
  SamplingParams greedy;
  greedy.temperature = 0;
  greedy.max_tokens = static_cast<std::int32_t>((*canaries)[0].token_ids.size());
  for (std::size_t c = 0; c < canaries->size(); ++c)
    ASSERT_TRUE(generator.Add(c, (*canaries)[c].prompt_token_ids, greedy).ok());
  std::size_t ended = 0;
  while (ended < canaries->size()) {
    for (const GeneratedSequence& sequence : generator.Step()) {
      const Canary& canary = (*canaries)[sequence.key];
      EXPECT_EQ(sequence.token_ids, canary.token_ids);
      for (std::size_t i = 0; i < canary.logprobs.size(); ++i)
        EXPECT_NEAR(sequence.logprobs[i], canary.logprobs[i], 1e-5);
      ++ended;
    }
  }
}

TEST(CanariesTest, PromptsDoNotDependOnTheWeightsButLogprobsDo) {
  const auto a = GreedyCanaries(*SmallModel());
  const auto b = GreedyCanaries(*SmallModel(ModelDtype::kFloat32, 8));
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t c = 0; c < a->size(); ++c) {
    EXPECT_EQ((*a)[c].prompt_token_ids, (*b)[c].prompt_token_ids);
    EXPECT_NE((*a)[c].logprobs, (*b)[c].logprobs);
  }
}

TEST(CanariesTest, WeightsThatAreNotFiniteAreRejected) {
  const auto model = SmallModel();
  {
    const at::NoGradGuard no_grad;
    at::Tensor(model->weights().final_norm_D).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  EXPECT_EQ(GreedyCanaries(*model).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace buttress
