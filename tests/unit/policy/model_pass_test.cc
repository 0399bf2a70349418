#include "lib/policy/model_pass.h"

#include <ATen/record_function.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string_view>

#include "lib/policy/adapters/adapted_model.h"
#include "tests/support/live_bytes.h"
#include "tests/support/named_gradients.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

// Short sequences use the short-attention kernel; the batch with a long one uses that of LibTorch.
TEST(ModelPassTest, GradientsEqualThoseOfTransformers) {
  const nlohmann::json numbers = GoldenNumbers();
  double worst = 0;
  for (const std::string name : {"qwen2_tiny", "qwen2_untied"}) {
    const auto model = GoldenModel(name);
    std::vector<std::vector<std::int64_t>> short_ones, long_ones;
    for (const auto& row : numbers[name]["sequences"]) {
      auto tokens = row["tokens"].get<std::vector<std::int64_t>>();
      (tokens.size() <= 33 ? short_ones : long_ones).push_back(std::move(tokens));
    }
    ASSERT_EQ(long_ones.size(), 2u);  // 40 and 90 tokens, padded to rectangles
    NamedGradients gradients(*model);
    for (const auto& sequences : {short_ones, long_ones}) {
      ModelPass pass(*model, ScoredSequences(sequences),
                     {numbers["temperature"], EntropyMode::kNone});
      pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
    }
    for (const auto& [parameter, tensor] : model->parameters()) {
      const auto& expected = numbers[name]["gradients"][parameter];
      const at::Tensor& found = gradients.sums[parameter];
      ASSERT_TRUE(found.defined()) << parameter;
      const double norm = expected["norm"].get<double>();
      worst = std::max(worst, std::abs(found.norm().item<double>() - norm) / norm);
      const auto first =
          torch::tensor(expected["first"].get<std::vector<double>>(), torch::kDouble);
      worst = std::max(
          worst, MaxDifference(found.flatten().narrow(0, 0, 4).to(torch::kDouble), first) / norm);
    }
  }
  RecordProperty("worst_difference", std::to_string(worst));
  EXPECT_LT(worst, 1e-5);
}

// A loss over log-probs and entropy of sequences that share a prefix, against one graph of it all.
TEST(ModelPassTest, GradientsEqualThoseOfOneGraph) {
  for (const std::string name : {"qwen2_tiny", "qwen2_untied", "qwen3_moe"}) {
    const auto model = GoldenModel(name);
    PassTokens tokens = ScoredSequences({{5, 9, 2, 7}, {1, 4, 8}, {3, 3, 6, 2, 1}});
    tokens.prefixes = {-1, 0, 0};
    torch::manual_seed(2);
    const at::Tensor weights_M = torch::randn({tokens.rows_M.size(0)});
    const auto loss_of = [&](const TokenLogprobs& out) {
      return (out.logprobs_M.exp() * weights_M).sum() - 0.3 * out.entropy_M.square().sum();
    };
    ModelPass pass(*model, tokens, {0.8, EntropyMode::kDifferentiable, {}, 5});
    NamedGradients gradients(*model);
    pass.Backward(pass.GradientOf(loss_of(pass.output())), gradients);

    const at::Tensor hidden_MD = model->Hidden(tokens.tokens_N, tokens.lengths, tokens.prefixes)
                                     .index_select(0, tokens.rows_M);
    const at::Tensor logp_MV = at::log_softmax(model->Logits(hidden_MD) / 0.8, -1);
    loss_of({logp_MV.gather(1, tokens.targets_M.unsqueeze(1)).squeeze(1),
             (logp_MV.exp() * logp_MV).sum(-1).neg()})
        .backward();
    for (const auto& [parameter, tensor] : model->parameters()) {
      const double size = std::max(1e-3, tensor.grad().abs().max().item<double>());
      EXPECT_LT(MaxDifference(gradients.sums[parameter], tensor.grad()) / size, 1e-5)
          << name << " " << parameter;
    }
  }
}

// Recomputation gives the same bits. Whole blocks keep less than half as much for the backward
// pass.
TEST(ModelPassTest, RecomputedBlocksGiveTheSameGradients) {
  for (const std::string name :
       {"qwen2_tiny", "qwen3", "qwen3_moe", "llama", "mistral", "gemma2", "gemma3"}) {
    const auto model = GoldenModel(name);
    PassTokens tokens = ScoredSequences({{5, 9, 2, 7}, {1, 4, 8}, {3, 3, 6, 2, 1}});
    tokens.prefixes = {-1, 0, 0};
    const auto gradients_of = [&](Recompute recompute, std::int64_t& kept) {
      const LiveBytes bytes;
      ModelPass pass(*model, tokens, {.temperature = 0.8, .recompute = recompute});
      NamedGradients gradients(*model);
      kept = bytes.now();
      pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
      return gradients.sums;
    };
    std::int64_t all = 0, attention = 0, inputs = 0;
    const auto expected = gradients_of(Recompute::kNone, all);
    const auto selective = gradients_of(Recompute::kSelective, attention);
    const auto whole = gradients_of(Recompute::kBlock, inputs);
    EXPECT_LT(attention, all) << name;
    EXPECT_LT(inputs, attention) << name;
    EXPECT_LT(2 * inputs, all) << name;
    ASSERT_EQ(expected.size(), model->parameters().size());
    for (const auto& [parameter, gradient] : expected) {
      EXPECT_TRUE(gradient.equal(selective.at(parameter))) << name << " " << parameter;
      EXPECT_TRUE(gradient.equal(whole.at(parameter))) << name << " " << parameter;
    }
  }
}

// Of a model with adapters, nothing else has a gradient, and without them it is as before, bit for
// bit.
TEST(ModelPassTest, OnlyAdaptersAreTrained) {
  for (const std::string name : {"qwen2_tiny", "qwen2_untied"}) {
    const auto model = GoldenModel(name);
    PassTokens tokens = ScoredSequences({{5, 9, 2, 7}, {1, 4, 8}, {3, 3, 6, 2, 1}});
    tokens.prefixes = {-1, 0, 0};
    const auto logprobs = [&] {
      const at::NoGradGuard no_grad;
      return ModelPass(*model, tokens, {}).output().logprobs_M;
    };
    const at::Tensor before = logprobs();
    ASSERT_TRUE(StartAdapters({.rank = 3}, 1, *model).ok());
    EXPECT_TRUE(logprobs().equal(before));
    torch::manual_seed(3);
    {
      const at::NoGradGuard no_grad;
      for (const auto& [parameter, tensor] : model->parameters())
        if (parameter.ends_with("lora_B.weight")) at::Tensor(tensor).normal_(0, 0.2);
    }
    EXPECT_GT(MaxDifference(logprobs(), before), 0.1);
    {
      const AdaptersOff off(*model);
      EXPECT_TRUE(logprobs().equal(before));
    }
    const auto gradients_of = [&](Recompute recompute) {
      NamedGradients gradients(*model);
      ModelPass pass(*model, tokens, {.recompute = recompute});
      pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
      return gradients.sums;
    };
    auto whole = gradients_of(Recompute::kNone);
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kBlock}) {
      const auto recomputed = gradients_of(recompute);
      ASSERT_EQ(recomputed.size(), 14 * model->blocks());
      for (const auto& [parameter, gradient] : recomputed)
        EXPECT_TRUE(gradient.equal(whole.at(parameter))) << parameter;
    }
    at::log_softmax(model->Logits(model->Hidden(tokens.tokens_N, tokens.lengths, tokens.prefixes)
                                      .index_select(0, tokens.rows_M)),
                    -1)
        .gather(1, tokens.targets_M.unsqueeze(1))
        .sum()
        .backward();
    EXPECT_EQ(whole.size(), 14 * model->blocks());
    for (const auto& [parameter, tensor] : model->parameters()) {
      const double size = std::max(1e-3, tensor.grad().abs().max().item<double>());
      EXPECT_LT(MaxDifference(whole[parameter], tensor.grad()) / size, 1e-4)
          << name << " " << parameter;
    }
    for (const ParameterUnit& unit : model->units()) {
      for (const auto& [parameter, tensor] : unit.parameters)
        EXPECT_EQ(tensor.grad().defined(), unit.trainable) << parameter;
    }
  }
}

TEST(ModelPassTest, UnitsFollowFromTheLastToTheFirst) {
  const auto model = GoldenModel("qwen2_untied");
  ModelPass pass(*model, ScoredSequences({{1, 2, 3}}), {});
  NamedGradients gradients(*model);
  pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
  EXPECT_TRUE(std::is_sorted(gradients.order.rbegin(), gradients.order.rend()));
  EXPECT_EQ(gradients.sums.size(), model->parameters().size());
  for (const auto& [name, tensor] : model->parameters())
    EXPECT_FALSE(tensor.grad().defined()) << name;  // the sink alone has them
}

TEST(ModelPassTest, UnitsHoldTheParametersInTheOrderOfTheCheckpoint) {
  for (const std::string name : {"qwen2_tiny", "qwen2_untied", "qwen3_moe"}) {
    const auto model = GoldenModel(name);
    std::size_t next = 0;
    for (const ParameterUnit& unit : model->units()) {
      for (const auto& [parameter, tensor] : unit.parameters) {
        EXPECT_EQ(parameter, model->parameters()[next].first);
        EXPECT_TRUE(tensor.is_same(model->parameters()[next++].second));
      }
    }
    EXPECT_EQ(next, model->parameters().size());
    EXPECT_EQ(model->units().size(), model->blocks() + 2);
    EXPECT_EQ(model->units().back().parameters.front().first, "model.norm.weight");
  }
}

// Queries, keys and values are one matrix in memory, and so are gate and up.
TEST(ModelPassTest, ProductsReadTheParametersWhereTheyAre) {
  const auto model = GoldenModel("qwen2_untied");
  const PassTokens tokens = ScoredSequences({{1, 2, 3}});
  ModelPass(*model, tokens, {});  // makes the table of the rotations
  static int copies;
  copies = 0;
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
        copies += std::string_view(function.name()) == "aten::cat" ? 1 : 0;
        return std::unique_ptr<at::ObserverContext>();
      }));
  ModelPass pass(*model, tokens, {});
  NamedGradients gradients(*model);
  pass.Backward(pass.GradientOf(pass.output().logprobs_M.sum()), gradients);
  at::cat({at::ones({1}), at::ones({1})});  // the callback sees this one
  at::removeCallback(handle);
  EXPECT_EQ(copies, 1);
}

TEST(ModelPassTest, KeepsNoGraphWithoutGradients) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::NoGradGuard no_grad;
  const ModelPass pass(*model, ScoredSequences({{1, 2, 3}}), {1, EntropyMode::kDetached});
  EXPECT_FALSE(pass.output().logprobs_M.requires_grad());
  EXPECT_FALSE(pass.output().entropy_M.requires_grad());
}

}  // namespace
}  // namespace buttress
