// Gradients of a ModelPass by the names of the parameters. Torch.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/policy/model_pass.h"

namespace buttress {

class NamedGradients final : public GradientSink {
 public:
  // `model` must outlive the sink.
  explicit NamedGradients(const Transformer& model) : model_(model) {}

  void Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) override {
    AddRows(unit, index, 0, gradient);
  }

  void AddRows(std::size_t unit, std::size_t index, std::int64_t first,
               const at::Tensor& gradient) override {
    SumOf(unit, index).narrow(0, first, gradient.size(0)).add_(gradient);
  }

  void AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                 const at::Tensor& gradient_UD) override {
    SumOf(unit, index).index_add_(0, rows_U, gradient_UD);
  }

  void Done(std::size_t unit) override { done.push_back(unit); }

  std::vector<std::size_t> done;           // the units, as they were complete
  std::map<std::string, at::Tensor> sums;  // float32, of the parameters that have one
  std::vector<std::size_t> order;          // the units, as their gradients came

 private:
  at::Tensor& SumOf(std::size_t unit, std::size_t index) {
    const auto& [name, parameter] = model_.units()[unit].parameters[index];
    at::Tensor& sum = sums[name];
    if (!sum.defined()) sum = at::zeros(parameter.sizes(), at::kFloat);
    order.push_back(unit);
    return sum;
  }

  const Transformer& model_;
};

// Sequences of which every token after the first is scored.
inline PassTokens ScoredSequences(const std::vector<std::vector<std::int64_t>>& sequences) {
  PassTokens pass;
  std::vector<std::int64_t> tokens, rows;
  for (const auto& sequence : sequences) {
    for (std::size_t t = 0; t + 1 < sequence.size(); ++t)
      rows.push_back(static_cast<std::int64_t>(tokens.size() + t));
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    pass.lengths.push_back(static_cast<std::int64_t>(sequence.size()));
  }
  pass.tokens_N = torch::tensor(tokens, at::kLong);
  pass.rows_M = torch::tensor(rows, at::kLong);
  pass.targets_M = pass.tokens_N.index_select(0, pass.rows_M + 1);
  return pass;
}

}  // namespace buttress
