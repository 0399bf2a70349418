// A row-wise model gives the bits of the decoder that samples with its weights.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/adapters/adapters.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/model_pass.h"
#include "tests/unit/policy/golden.h"
#include "tests/unit/policy/teacher_forced.h"

namespace buttress {
namespace {

constexpr double kTemperature = 0.7;
constexpr std::uint64_t kPrompts = 5;
constexpr std::uint64_t kCompletions = 4;

struct Sampled {
  std::vector<std::int32_t> prompt;
  std::vector<GeneratedSequence> completions;
};

// Groups of completions, most of whose prompts and completions end inside a block of the cache.
// A few sequences at a time run, so that each is computed next to different ones.
std::vector<Sampled> Sample(Transformer& model) {
  Generator generator(model, {.max_running = 7, .kv_cache_tokens = 4096});
  std::vector<Sampled> groups(kPrompts);
  for (std::uint64_t g = 0; g < kPrompts; ++g) {
    groups[g].prompt = PromptOf(static_cast<std::int32_t>(g), 9 + 11 * static_cast<int>(g), 60);
    groups[g].completions.resize(kCompletions);
    for (std::uint64_t c = 0; c < kCompletions; ++c) {
      SamplingParams sampling;
      sampling.temperature = kTemperature;
      sampling.seed = 10 * g + c;
      sampling.max_tokens = static_cast<std::int32_t>(5 + 8 * c + g);
      EXPECT_TRUE(generator.Add(g * kCompletions + c, groups[g].prompt, sampling).ok());
    }
  }
  while (generator.running() + generator.waiting() > 0) {
    for (GeneratedSequence& sequence : generator.Step())
      groups[sequence.key / kCompletions].completions[sequence.key % kCompletions] = sequence;
  }
  return groups;
}

// The tokens as a learner packs them: each prompt once, its completions behind it.
PassTokens PackedTokens(const std::vector<Sampled>& groups) {
  std::vector<std::int64_t> tokens, rows, targets;
  PassTokens pass;
  for (const Sampled& group : groups) {
    const std::int64_t prompt = std::ssize(pass.lengths);
    pass.prefixes.push_back(-1);
    pass.lengths.push_back(std::ssize(group.prompt));
    tokens.insert(tokens.end(), group.prompt.begin(), group.prompt.end());
    const std::int64_t last_of_prompt = std::ssize(tokens) - 1;
    for (const GeneratedSequence& completion : group.completions) {
      rows.push_back(last_of_prompt);
      for (std::int64_t t = 1; t < std::ssize(completion.token_ids); ++t)
        rows.push_back(std::ssize(tokens) + t - 1);
      targets.insert(targets.end(), completion.token_ids.begin(), completion.token_ids.end());
      tokens.insert(tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
      pass.prefixes.push_back(prompt);
      pass.lengths.push_back(std::ssize(completion.token_ids));
    }
  }
  pass.tokens_N = TokensOf(tokens);
  pass.rows_M = TokensOf(rows);
  pass.targets_M = TokensOf(targets);
  return pass;
}

at::Tensor LogprobsOf(const std::vector<Sampled>& groups) {
  std::vector<float> all;
  for (const Sampled& group : groups)
    for (const GeneratedSequence& completion : group.completions)
      all.insert(all.end(), completion.logprobs.begin(), completion.logprobs.end());
  return torch::tensor(all);
}

// The passes of training, of old log-probs, with and without kept logits.
void ExpectTheBitsOfTheSampler(Transformer& model) {
  const std::vector<Sampled> groups = Sample(model);
  const at::Tensor sampled = LogprobsOf(groups);
  ASSERT_GT(sampled.numel(), 300);
  const PassTokens tokens = PackedTokens(groups);
  const ModelPass other(model, tokens, {.temperature = kTemperature});
  EXPECT_FALSE(at::equal(other.output().logprobs_M.detach(), sampled));
  model.ComputeRowWise();
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
    for (const std::int64_t kept : {std::int64_t{0}, std::int64_t{1} << 27}) {
      PassOptions options{.temperature = kTemperature, .entropy = EntropyMode::kDetached};
      options.recompute = recompute;
      options.kept_logits = kept;
      const ModelPass pass(model, tokens, options);
      EXPECT_TRUE(at::equal(pass.output().logprobs_M.detach(), sampled));
      const at::NoGradGuard no_grad;
      const ModelPass scored(model, tokens, options);
      EXPECT_TRUE(at::equal(scored.output().logprobs_M, sampled));
    }
  }
}

class RowWiseTest : public ::testing::TestWithParam<std::tuple<std::string, ModelDtype>> {};

TEST_P(RowWiseTest, TheLearnerGivesTheBitsOfTheSampler) {
  const auto& [name, dtype] = GetParam();
  ExpectTheBitsOfTheSampler(*GoldenModel(name, dtype));
}

INSTANTIATE_TEST_SUITE_P(
    Models, RowWiseTest,
    ::testing::Combine(::testing::Values("qwen2_tiny", "qwen2_untied", "qwen3_moe", "gemma2",
                                         "gemma3", "llama", "mistral", "qwen3"),
                       ::testing::Values(ModelDtype::kFloat32, ModelDtype::kBfloat16)),
    [](const auto& param) {
      return std::get<0>(param.param) +
             (std::get<1>(param.param) == ModelDtype::kFloat32 ? "_float32" : "_bfloat16");
    });

TEST(RowWiseAdaptersTest, TheLearnerGivesTheBitsOfTheSampler) {
  const auto model = GoldenModel("qwen2_untied");
  ASSERT_TRUE(StartAdapters({.rank = 2}, 1, *model).ok());
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model->parameters()) at::Tensor(tensor).add_(0.05);
  }
  ExpectTheBitsOfTheSampler(*model);
}

// What a learner follows is the gradient of the other path, and what it reports its entropy.
TEST(RowWiseGradientTest, GradientsAndEntropiesAreThoseOfTheOtherPath) {
  struct Gradients final : GradientSink {
    void Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) override {
      at::Tensor& sum = sums[{unit, index}];
      sum = sum.defined() ? sum + gradient.flatten() : gradient.flatten().clone();
    }

    void AddRows(std::size_t unit, std::size_t /*index*/, std::int64_t first,
                 const at::Tensor& gradient) override {
      sums[{unit, 1000 + static_cast<std::size_t>(first)}] = gradient.flatten().clone();
    }

    void AddRowsAt(std::size_t unit, std::size_t /*index*/, const at::Tensor& /*rows*/,
                   const at::Tensor& gradient) override {
      sums[{unit, 2000}] = gradient.flatten().clone();
    }

    void Done(std::size_t /*unit*/) override {}

    std::map<std::pair<std::size_t, std::size_t>, at::Tensor> sums;
  };

  const auto model = GoldenModel("qwen2_untied");
  const PassTokens tokens = PackedTokens(Sample(*model));
  const auto run = [&](Gradients& gradients) {
    ModelPass pass(*model, tokens,
                   {.temperature = kTemperature, .entropy = EntropyMode::kDifferentiable});
    const at::Tensor loss = (pass.output().logprobs_M.exp() + pass.output().entropy_M).sum();
    const at::Tensor entropy = pass.output().entropy_M.detach().clone();
    pass.Backward(pass.GradientOf(loss), gradients);
    return entropy;
  };
  Gradients of_rows, of_other;
  const at::Tensor entropy = run(of_other);
  model->ComputeRowWise();
  EXPECT_LT(MaxDifference(run(of_rows), entropy), 1e-5);
  ASSERT_EQ(of_rows.sums.size(), of_other.sums.size());
  for (const auto& [parameter, sum] : of_other.sums) {
    const double largest = sum.abs().max().item<double>();
    EXPECT_LT(MaxDifference(of_rows.sums.at(parameter), sum), 1e-4 * std::max(largest, 1e-3));
  }
}

}  // namespace
}  // namespace buttress
