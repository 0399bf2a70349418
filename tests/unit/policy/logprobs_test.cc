#include "lib/policy/logprobs.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "lib/policy/layers/embedding_and_head.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

TEST(LogprobsTest, EqualThoseOfTransformers) {
  const at::NoGradGuard no_grad;
  const nlohmann::json numbers = GoldenNumbers();
  double worst = 0;
  for (const std::string name : {"qwen2_tiny", "qwen2_untied"}) {
    const auto model = GoldenModel(name);
    for (const auto& row : numbers[name]["sequences"]) {
      const auto tokens = row["tokens"].get<std::vector<std::int64_t>>();
      const std::int64_t length = static_cast<std::int64_t>(tokens.size());
      const at::Tensor ids = TokensOf(tokens);
      const at::Tensor hidden = model->Hidden(ids, std::span(&length, 1));
      const auto out =
          ScoreTokens(*model, hidden, at::cat({ids.narrow(0, 1, length - 1), ids.narrow(0, 0, 1)}),
                      {numbers["temperature"], EntropyMode::kDetached, {}, 7});
      const auto logprobs = row["logprobs"].get<std::vector<double>>();
      if (!logprobs.empty()) {
        worst = std::max(worst, MaxDifference(out.logprobs_M.narrow(0, 0, length - 1),
                                              torch::tensor(logprobs, at::kDouble)));
      }
      const auto entropy = row["entropy"].get<std::vector<double>>();
      worst = std::max(worst, MaxDifference(out.entropy_M, torch::tensor(entropy, at::kDouble)));
    }
  }
  RecordProperty("worst_difference", std::to_string(worst));
  EXPECT_LT(worst, 1e-4);
}

// The gradients in the hidden states and in the head.
struct HeadGradients {
  at::Tensor hidden_MD;
  at::Tensor head_VD;
};

HeadGradients GradientsOf(HeadPass& pass, const Transformer& model, const OutputGradient& output) {
  HeadGradients gradients{{}, at::zeros_like(model.weights().head_VD.detach())};
  gradients.hidden_MD = pass.Backward(output, [&](std::int64_t first, const at::Tensor& rows) {
    gradients.head_VD.narrow(0, first, rows.size(0)).add_(rows);
  });
  return gradients;
}

// Blocks of the vocabulary that it is and is not a multiple of, logits that are kept and that are
// computed again.
std::vector<PassOptions> BlockedOptions(double temperature, std::int64_t least) {
  std::vector<PassOptions> all;
  for (const std::int64_t block : {least, 7 * least, std::int64_t{4096}}) {
    for (const std::int64_t kept : {0, 1 << 20})
      all.push_back({temperature, EntropyMode::kDifferentiable, {}, block, kept});
  }
  return all;
}

// Gradients of log-probs, of the entropy and of both, against those of one log_softmax. Gemma 2
// caps its logits.
TEST(LogprobsTest, GradientsEqualThoseOfPlainLogSoftmax) {
  for (const std::string name : {"qwen2_untied", "gemma2"}) {
    const auto model = GoldenModel(name);
    const double cap = model->config().logit_cap;
    const std::int64_t rows = 23;
    torch::manual_seed(5);
    const at::Tensor hidden =
        (cap > 0 ? 40 : 1) * torch::randn({rows, model->config().hidden_size});
    hidden.requires_grad_(true);
    const at::Tensor targets = torch::randint(0, model->config().vocab_size, {rows}, torch::kLong);
    const at::Tensor head = model->weights().head_VD;
    const OutputGradient both{torch::randn({rows}), torch::randn({rows})};
    for (const OutputGradient& output :
         {both, OutputGradient{both.logprobs_M, {}}, OutputGradient{{}, both.entropy_M}}) {
      const at::Tensor logp = at::log_softmax(CapLogits(at::linear(hidden, head), cap) / 0.7, -1);
      at::Tensor loss = at::zeros({});
      if (output.logprobs_M.defined())
        loss = loss + (logp.gather(1, targets.unsqueeze(1)).squeeze(1) * output.logprobs_M).sum();
      if (output.entropy_M.defined())
        loss = loss - ((logp.exp() * logp).sum(-1) * output.entropy_M).sum();
      const auto expected = torch::autograd::grad({loss}, {hidden, head});
      const double size = std::max(1.0, expected[1].abs().max().item<double>());
      for (const PassOptions& options : BlockedOptions(0.7, 1)) {
        HeadPass pass(*model, hidden, targets, options);
        const HeadGradients found = GradientsOf(pass, *model, output);
        EXPECT_LT(MaxDifference(found.hidden_MD, expected[0]), 1e-5)
            << name << ", blocks of " << options.vocabulary_block;
        EXPECT_LT(MaxDifference(found.head_VD, expected[1]) / size, 1e-5)
            << name << ", blocks of " << options.vocabulary_block;
      }
    }
  }
}

// Rows that are nearly certain and rows that are nearly uniform, whose maximum comes in any block,
// against the softmax of the same logits in float64.
TEST(LogprobsTest, SumsOverBlocksDoNotDrift) {
  ModelConfig config = GoldenModel("qwen2_untied")->config();
  config.vocab_size = 5003;
  config.initializer_range = 0.3;
  for (const ModelDtype dtype : {ModelDtype::kFloat32, ModelDtype::kBfloat16}) {
    const auto model = Transformer::Random(config, dtype, {}, 1);
    ASSERT_TRUE(model.ok());
    const std::int64_t rows = 300;
    torch::manual_seed(6);
    const at::Tensor size_M1 = at::logspace(-2, 1, rows).unsqueeze(1);
    const at::Tensor hidden =
        (torch::randn({rows, config.hidden_size}) * size_M1).to(ScalarTypeOf(dtype));
    const at::Tensor targets = torch::randint(0, config.vocab_size, {rows}, torch::kLong);
    const at::NoGradGuard no_grad;
    const at::Tensor logp =
        at::log_softmax(HeadLogits(hidden, (*model)->weights().head_VD).to(at::kDouble), -1);
    const at::Tensor entropy = (logp.exp() * logp).sum(-1).neg();
    EXPECT_LT(entropy.min().item<double>(), 0.1);
    EXPECT_GT(entropy.max().item<double>(), 8.5);
    const at::Tensor target = logp.gather(1, targets.unsqueeze(1)).squeeze(1);
    for (const PassOptions& options : BlockedOptions(1, 33)) {
      const TokenLogprobs found = ScoreTokens(**model, hidden, targets, options);
      EXPECT_LT(
          ((found.logprobs_M - target) / target.abs().clamp_min(1)).abs().max().item<double>(),
          1e-6);
      EXPECT_LT(((found.entropy_M - entropy) / entropy.clamp_min(1)).abs().max().item<double>(),
                1e-6);
    }
  }
}

TEST(LogprobsTest, EntropyIsComputedWhereItIsAskedFor) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::Tensor hidden = torch::ones({3, model->config().hidden_size});
  const auto entropy = [&](EntropyMode mode) {
    return ScoreTokens(*model, hidden, TokensOf({1, 2, 3}), {1.0, mode}).entropy_M;
  };
  EXPECT_FALSE(entropy(EntropyMode::kNone).defined());
  EXPECT_TRUE(entropy(EntropyMode::kDetached).defined());
}

// Returns the number of operators of the backward pass that read or write a value for each logit.
std::int64_t LogitPassesOfBackward(EntropyMode mode) {
  static std::int64_t passes;
  static std::int64_t logits;
  const auto model = GoldenModel("qwen2_untied");
  const at::Tensor hidden = torch::ones({3, model->config().hidden_size});
  HeadPass pass(*model, hidden, TokensOf({1, 2, 3}), {1.0, mode});
  passes = 0;
  logits = 3 * model->config().vocab_size;
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& f) {
                              bool all = false;
                              for (const c10::IValue& input : f.inputs())
                                all = all || (input.isTensor() && input.toTensor().defined() &&
                                              input.toTensor().numel() == logits);
                              passes += all ? 1 : 0;
                              return std::unique_ptr<at::ObserverContext>();
                            }).needsInputs(true));
  GradientsOf(pass, *model, {torch::ones({3}), {}});
  at::removeCallback(handle);
  return passes;
}

TEST(LogprobsTest, DetachedEntropyCostsTheBackwardPassNothing) {
  EXPECT_GT(LogitPassesOfBackward(EntropyMode::kNone), 0);
  EXPECT_EQ(LogitPassesOfBackward(EntropyMode::kDetached),
            LogitPassesOfBackward(EntropyMode::kNone));
}

TEST(LogprobsTest, NoRowsGiveNoLogprobsAndZeroGradient) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::Tensor hidden = torch::ones({0, model->config().hidden_size});
  HeadPass pass(*model, hidden, TokensOf({}), {});
  EXPECT_EQ(pass.output().logprobs_M.size(0), 0);
  const HeadGradients found = GradientsOf(pass, *model, {pass.output().logprobs_M, {}});
  EXPECT_EQ(found.hidden_MD.size(0), 0);
  EXPECT_EQ(found.head_VD.abs().max().item<double>(), 0.0);
}

// The most bytes of tensors that a pass takes, forward and backward.
std::int64_t PeakOfHead(std::int64_t rows, std::int64_t vocabulary) {
  ModelConfig config = GoldenModel("qwen2_untied")->config();
  config.vocab_size = vocabulary;
  const auto model = Transformer::Random(config, ModelDtype::kBfloat16, {}, 1);
  const at::Tensor hidden = torch::ones({rows, config.hidden_size}, torch::kBFloat16);
  const LiveBytes bytes;
  HeadPass pass(**model, hidden, torch::ones({rows}, torch::kLong),
                {.entropy = EntropyMode::kDetached});
  pass.Backward({torch::ones({rows}), {}}, [](std::int64_t, const at::Tensor&) {});
  return bytes.peak();
}

// The largest tensors of a step are those with a value for each logit. Few logits are kept for the
// backward pass; of more, blocks exist alone.
TEST(LogprobsTest, LogitsOfTheWholeVocabularyAreKeptOnlyIfTheyAreFew) {
  constexpr std::int64_t kRows = 512, kFloat = 4;
  const std::int64_t block = kRows * PassOptions().vocabulary_block * kFloat;
  const std::int64_t kept = kRows * 20000 * kFloat;
  const std::int64_t few = PeakOfHead(kRows, 20000);
  EXPECT_GE(few, kept);
  EXPECT_LT(few, kept + 4 * block);
  const std::int64_t many = PassOptions().kept_logits / (4 * kRows) + 1;
  EXPECT_LT(PeakOfHead(4 * kRows, many), 4 * 4 * block);
}

}  // namespace
}  // namespace buttress
