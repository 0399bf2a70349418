#include "tests/oracles/losses/answer.h"

#include <torch/types.h>

#include <algorithm>
#include <string>
#include <vector>

#include "learner/step/token_marks.h"
#include "lib/config/load.h"
#include "lib/rl/loss/aggregation.h"
#include "lib/rl/loss/loss.h"

namespace buttress {
namespace {

using nlohmann::json;

at::Tensor Floats(const json& row, const char* key) {
  return torch::tensor(row[key].get<std::vector<double>>(), at::kFloat);
}

// One value a completion, for each of its tokens.
std::vector<float> Spread(const std::vector<double>& values,
                          const std::vector<std::int32_t>& lengths) {
  std::vector<float> spread;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    spread.insert(spread.end(), static_cast<std::size_t>(lengths[i]),
                  static_cast<float>(values[i]));
  }
  return spread;
}

Result<at::Tensor> Marks(const json& row, const std::vector<std::int32_t>& lengths,
                         const std::vector<double>& advantages, const AlgorithmConfig& algorithm) {
  const auto logprobs = row["sampler"].get<std::vector<float>>();
  std::vector<MarkedRow> rows;
  auto next = logprobs.begin();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    rows.push_back(
        {static_cast<std::int64_t>(i), advantages[i], std::vector<float>(next, next + lengths[i])});
    next += lengths[i];
  }
  const auto alone = MakeLocalCollective();
  BUTTRESS_ASSIGN_OR_RETURN(const auto marks,
                            MarkTokens(rows, algorithm, {1, 1}, *alone, std::chrono::seconds(10)));
  std::vector<std::uint8_t> flat;
  for (const auto& of_row : marks) flat.insert(flat.end(), of_row.begin(), of_row.end());
  return torch::tensor(flat).to(at::kBool);
}

}  // namespace

Result<json> LossAnswer(const json& row) {
  BUTTRESS_ASSIGN_OR_RETURN(const AlgorithmConfig algorithm,
                            ParseAlgorithm(row["settings"].get<std::vector<std::string>>()));
  return LossAnswer(row, algorithm);
}

Result<json> LossAnswer(const json& row, const AlgorithmConfig& algorithm) {
  const auto lengths = row["lengths"].get<std::vector<std::int32_t>>();
  const auto advantages = row["advantages"].get<std::vector<double>>();
  const std::vector<std::int32_t> one_group = {0, static_cast<std::int32_t>(lengths.size())};
  const auto weights =
      TokenWeights(algorithm.aggregation, lengths, one_group, CountDenominators(lengths, one_group),
                   std::max(1.0, algorithm.length_norm));
  LossInput input;
  input.logprobs_M = Floats(row, "logprobs").requires_grad_(true);
  input.sampler_logprobs_M = Floats(row, "sampler");
  if (row.contains("old")) input.old_logprobs_M = Floats(row, "old");
  if (row.contains("ref")) input.ref_logprobs_M = Floats(row, "ref");
  input.advantages_M = torch::tensor(Spread(advantages, lengths));
  input.weights_M = torch::tensor(Spread(weights, lengths));
  input.lengths_C = torch::tensor(std::vector<std::int64_t>(lengths.begin(), lengths.end()));
  if (MarksTokens(algorithm.loss)) {
    BUTTRESS_ASSIGN_OR_RETURN(input.marked_M, Marks(row, lengths, advantages, algorithm));
  }
  const LossOutput out = ComputeLoss(input, algorithm);
  out.loss_sum.backward();
  const auto metric = [&](LossMetric which) { return out.metric(which).item<double>(); };
  const at::Tensor gradient = input.logprobs_M.grad().contiguous();
  const float* values = gradient.const_data_ptr<float>();
  return json{{"loss", out.loss_sum.item<double>()},
              {"gradient", std::vector<double>(values, values + gradient.numel())},
              {"clipped", metric(LossMetric::kClippedLow) + metric(LossMetric::kClippedHigh)},
              {"dual", metric(LossMetric::kClippedDual)},
              {"correction", metric(LossMetric::kCorrection)}};
}

}  // namespace buttress
