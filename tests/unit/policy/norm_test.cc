// The kernels of the CPU next to the operators that GPUs run.
#include "lib/policy/layers/norm.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "lib/policy/cpu/for_rows.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

using Norm = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Returns the output and the gradients in the inputs.
std::vector<at::Tensor> NormAndDifferentiate(const Norm& norm,
                                             const std::vector<at::Tensor>& values,
                                             const at::Tensor& grad) {
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& value : values) inputs.push_back(value.clone().requires_grad_());
  const at::Tensor out = norm(inputs);
  std::vector<at::Tensor> results = torch::autograd::grad({out}, inputs, {grad});
  results.push_back(out.detach());
  return results;
}

void ExpectEqual(const Norm& norm, const std::vector<at::Tensor>& values, double bound) {
  const at::Tensor grad = at::randn_like(values[0]);
  const auto expected = NormAndDifferentiate(norm, values, grad);
  const PortableOnly operators;
  const auto found = NormAndDifferentiate(norm, values, grad);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), values[0].scalar_type());
    EXPECT_LT(MaxDifference(found[i].to(at::kFloat), expected[i].to(at::kFloat)),
              bound * expected[i].abs().max().item<double>());
  }
}

TEST(NormTest, TheOperatorsOfGpusGiveTheOutputsAndGradientsOfTheKernels) {
  torch::manual_seed(3);
  for (const bool adds_one : {false, true}) {
    const NormSpec spec = {.eps = 1e-5, .adds_one = adds_one};
    const Norm of_rows = [&](const auto& x) { return RmsNorm(x[0], x[1], spec); };
    const AttentionSpec heads = {4, 2, 16};
    const Norm of_heads = [&](const auto& x) {
      return NormHeads(x[0].clone(), heads, x[1], x[2], spec);
    };
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const double bound = dtype == at::kFloat ? 1e-6 : 2e-2;
      const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype); };
      ExpectEqual(of_rows, {3 * random({700, 48}), random({48})}, bound);
      ExpectEqual(of_heads, {3 * random({300, 8 * 16}), random({16}), random({16})}, bound);
    }
  }
}

}  // namespace
}  // namespace buttress
