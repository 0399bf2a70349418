#include "lib/policy/logprobs.h"

#include <ATen/record_function.h>
#include <torch/types.h>
#include <torch/utils.h>

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
                                       numbers["temperature"], 7, EntropyMode::kDetached);
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

// Compares gradients of a loss over log-probs and entropy between the chunked and the plain
// function.
TEST(LogprobsTest, GradientsEqualThoseOfPlainLogSoftmax) {
  const auto model = GoldenModel("qwen2_untied");
  const std::int64_t rows = 23;
  torch::manual_seed(5);
  const at::Tensor hidden = torch::randn({rows, model->config().hidden_size}).requires_grad_(true);
  const at::Tensor targets = torch::randint(0, model->config().vocab_size, {rows}, torch::kLong);
  const at::Tensor weight = torch::randn({rows});
  const at::Tensor entropy_weight = torch::randn({rows});
  at::Tensor head = model->weights().head_VD;

  const at::Tensor logp = at::log_softmax(at::linear(hidden, head) / 0.7, -1);
  const at::Tensor entropy = -(logp.exp() * logp).sum(-1);
  ((logp.gather(1, targets.unsqueeze(1)).squeeze(1) * weight).sum() +
   (entropy * entropy_weight).sum())
      .backward();
  const at::Tensor hidden_grad = hidden.grad().clone();
  const at::Tensor head_grad = head.grad().clone();

  for (const std::int64_t chunk : {4, 23, 100}) {
    hidden.mutable_grad().zero_();
    head.mutable_grad().zero_();
    const auto out =
        ChunkedLogprobs(*model, hidden, targets, 0.7, chunk, EntropyMode::kDifferentiable);
    ((out.logprobs_M * weight).sum() + (out.entropy_M * entropy_weight).sum()).backward();
    EXPECT_LT(MaxDifference(hidden.grad(), hidden_grad), 1e-5) << "chunk " << chunk;
    EXPECT_LT(MaxDifference(head.grad(), head_grad), 1e-4) << "chunk " << chunk;
  }
}

TEST(LogprobsTest, DetachedEntropyCarriesNoGradient) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::Tensor hidden = torch::ones({3, model->config().hidden_size}).requires_grad_(true);
  const auto out =
      ChunkedLogprobs(*model, hidden, TokensOf({1, 2, 3}), 1.0, 2, EntropyMode::kDetached);
  EXPECT_TRUE(out.logprobs_M.requires_grad());
  EXPECT_FALSE(out.entropy_M.requires_grad());
  EXPECT_FALSE(ChunkedLogprobs(*model, hidden, TokensOf({1, 2, 3}), 1.0, 2, EntropyMode::kNone)
                   .entropy_M.defined());
}

// Returns the number of operators of the backward pass that read or write a value for each logit.
std::int64_t LogitPassesOfBackward(EntropyMode mode) {
  static std::int64_t passes;
  static std::int64_t logits;
  const auto model = GoldenModel("qwen2_untied");
  const at::Tensor hidden = torch::ones({3, model->config().hidden_size}).requires_grad_(true);
  const auto out = ChunkedLogprobs(*model, hidden, TokensOf({1, 2, 3}), 1.0, 3, mode);
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
  out.logprobs_M.sum().backward();
  at::removeCallback(handle);
  return passes;
}

TEST(LogprobsTest, DetachedEntropyCostsTheBackwardPassNothing) {
  EXPECT_GT(LogitPassesOfBackward(EntropyMode::kNone), 0);
  EXPECT_EQ(LogitPassesOfBackward(EntropyMode::kDetached),
            LogitPassesOfBackward(EntropyMode::kNone));
}

TEST(LogprobsTest, EntropyAloneHasTheGradientOfPlainLogSoftmax) {
  const auto model = GoldenModel("qwen2_untied");
  const at::Tensor hidden = torch::randn({3, model->config().hidden_size}).requires_grad_(true);
  const at::Tensor peer = hidden.detach().clone().requires_grad_(true);
  ChunkedLogprobs(*model, hidden, TokensOf({1, 2, 3}), 1.0, 2, EntropyMode::kDifferentiable)
      .entropy_M.sum()
      .backward();
  const at::Tensor logp = at::log_softmax(at::linear(peer, model->weights().head_VD), -1);
  (-(logp.exp() * logp).sum()).backward();
  EXPECT_LT(MaxDifference(hidden.grad(), peer.grad()), 1e-5);
}

TEST(LogprobsTest, NoRowsGiveNoLogprobsAndZeroGradient) {
  const auto model = GoldenModel("qwen2_tiny");
  const at::Tensor hidden = torch::ones({0, model->config().hidden_size}).requires_grad_(true);
  const auto out = ChunkedLogprobs(*model, hidden, TokensOf({}), 1.0, 2, EntropyMode::kNone);
  out.logprobs_M.sum().backward();
  EXPECT_EQ(out.logprobs_M.size(0), 0);
  EXPECT_EQ(model->weights().head_VD.grad().abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace buttress
