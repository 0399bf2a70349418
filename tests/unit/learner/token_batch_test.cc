#include <gtest/gtest.h>
#include <torch/types.h>

#include "learner/step/micro_batch.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr PassOptions kOptions = {0.9, EntropyMode::kNone};

TEST(TokenBatchTest, CompletionsShareTheRowsOfTheirPromptAndKeepTheirLogprobs) {
  const auto model = SmallModel();
  const std::vector<std::pair<Tokens, std::vector<Tokens>>> groups = {
      {{1, 2, 3}, {{4, 5, 6}, {7}, {8, 9}}}, {{1, 2}, {{3}, {3, 4}}}, {{5}, {{6, 7, 8, 9}}}};
  const std::vector<TokenSpan> middle = {{0, 1}, {2, 3}};
  TokenBatch together;
  std::vector<at::Tensor> alone;
  const at::NoGradGuard no_grad;
  for (const auto& [prompt, completions] : groups) {
    for (const Tokens& completion : completions) {
      const auto spans = completion.size() == 3 ? middle : std::vector<TokenSpan>();
      TokenBatch one;
      one.Add(prompt, completion, spans);
      alone.push_back(one.Run(*model, kOptions).output().logprobs_M);
      together.Add(prompt, completion, spans);
    }
  }
  EXPECT_EQ(together.input_tokens(), 3 + 2 + 0 + 1 + 2 + 0 + 1 + 1 + 3);
  const at::Tensor logprobs_M = together.Run(*model, kOptions).output().logprobs_M;
  const at::Tensor expected_M = at::cat(alone);
  ASSERT_EQ(logprobs_M.numel(), expected_M.numel());
  EXPECT_LT((logprobs_M - expected_M).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace buttress
