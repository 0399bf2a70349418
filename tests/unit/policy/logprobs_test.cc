#include "lib/policy/logprobs.h"

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

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
      const auto out = ChunkedLogprobs(*model, hidden,
                                       at::cat({ids.narrow(0, 1, length - 1), ids.narrow(0, 0, 1)}),
                                       {numbers["temperature"], 7, EntropyMode::kDetached});
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

// Gradients of log-probs, of the entropy and of both, against those of one log_softmax, in one
// chunk and in several.
TEST(LogprobsTest, GradientsEqualThoseOfPlainLogSoftmax) {
  const auto model = GoldenModel("qwen2_untied");
  const std::int64_t rows = 23;
  torch::manual_seed(5);
  const at::Tensor hidden = torch::randn({rows, model->config().hidden_size}).requires_grad_(true);
  const at::Tensor targets = torch::randint(0, model->config().vocab_size, {rows}, torch::kLong);
  const at::Tensor head = model->weights().head_VD;
  const OutputGradient both{torch::randn({rows}), torch::randn({rows})};
  for (const OutputGradient& output :
       {both, OutputGradient{both.logprobs_M, {}}, OutputGradient{{}, both.entropy_M}}) {
    const at::Tensor logp = at::log_softmax(at::linear(hidden, head) / 0.7, -1);
    at::Tensor loss = at::zeros({});
    if (output.logprobs_M.defined())
      loss = loss + (logp.gather(1, targets.unsqueeze(1)).squeeze(1) * output.logprobs_M).sum();
    if (output.entropy_M.defined())
      loss = loss - ((logp.exp() * logp).sum(-1) * output.entropy_M).sum();
    const auto expected = torch::autograd::grad({loss}, {hidden, head});
    for (const std::int64_t chunk : {4, 23, 100}) {
      HeadPass pass(*model, hidden, targets, {0.7, chunk, EntropyMode::kDifferentiable});
      const HeadGradients found = GradientsOf(pass, *model, output);
      EXPECT_LT(MaxDifference(found.hidden_MD, expected[0]), 1e-5) << "chunk " << chunk;
      EXPECT_LT(MaxDifference(found.head_VD, expected[1]), 1e-4) << "chunk " << chunk;
    }
  }
}

TEST(LogprobsTest, EntropyIsComputedWhereItIsAskedFor) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::Tensor hidden = torch::ones({3, model->config().hidden_size});
  const auto entropy = [&](EntropyMode mode) {
    return ChunkedLogprobs(*model, hidden, TokensOf({1, 2, 3}), {1.0, 2, mode}).entropy_M;
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
  HeadPass pass(*model, hidden, TokensOf({1, 2, 3}), {1.0, 3, mode});
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

// The largest tensors of a step are those with a value for each logit. A pass holds one in float32
// and, going backward, one in the dtype of the model.
TEST(LogprobsTest, OneTensorOfTheSizeOfTheLogitsExistsAtATime) {
  ModelConfig config = GoldenModel("qwen2_untied")->config();
  config.vocab_size = 20000;
  const auto model = Transformer::Random(config, ModelDtype::kBfloat16, {}, 1);
  ASSERT_TRUE(model.ok());
  const std::int64_t rows = 512;
  const std::int64_t logits = rows * config.vocab_size * 4;  // bytes
  const at::Tensor hidden = torch::ones({rows, config.hidden_size}, torch::kBFloat16);
  const LiveBytes bytes;
  HeadPass pass(**model, hidden, torch::ones({rows}, torch::kLong),
                {.entropy = EntropyMode::kDetached});
  EXPECT_LT(4 * bytes.peak(), 5 * logits);
  EXPECT_GE(bytes.now(), logits);  // kept for the backward pass
  pass.Backward({torch::ones({rows}), {}}, [](std::int64_t, const at::Tensor&) {});
  EXPECT_LT(4 * bytes.peak(), 7 * logits);
}

}  // namespace
}  // namespace buttress
