#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "lib/policy/layers/linear.h"
#include "lib/policy/layers/mlp.h"
#include "tests/unit/policy/golden.h"

namespace buttress::experts_test {
namespace {

constexpr std::int64_t kRows = 11, kWidth = 6, kExperts = 5;

// Experts that are matrices, and a router that never chooses the last one.
struct MatrixExperts {
  MatrixExperts() {
    torch::manual_seed(3);
    x = torch::randn({kRows, kWidth}).requires_grad_();
    router = torch::randn({kRows, kExperts});
    router.select(1, kExperts - 1).fill_(-1e3);
    router.requires_grad_();
    for (std::int64_t e = 0; e < kExperts; ++e)
      matrices.push_back(torch::randn({kWidth, kWidth}).requires_grad_());
  }

  at::Tensor Mix(const ExpertSpec& spec) {
    return MixExperts(spec, router, x, [&](std::size_t expert, const at::Tensor& rows) {
      called.push_back(expert);
      return at::silu(at::mm(rows, matrices[expert]));
    });
  }

  // Runs every expert on every row.
  at::Tensor Dense(const ExpertSpec& spec) const {
    at::Tensor shares = at::softmax(router, -1);
    const at::Tensor least = std::get<0>(at::topk(shares, spec.top_k, -1)).narrow(1, -1, 1);
    shares = at::where(shares.ge(least), shares, 0);
    if (spec.normalize) shares = shares / shares.sum(-1, true);
    at::Tensor sum = at::zeros_like(x);
    for (std::int64_t e = 0; e < kExperts; ++e)
      sum =
          sum + at::silu(at::mm(x, matrices[static_cast<std::size_t>(e)])) * shares.narrow(1, e, 1);
    return sum;
  }

  // The gradients of x, the router and the matrices.
  std::vector<at::Tensor> Gradients(const at::Tensor& out) {
    std::vector<at::Tensor> inputs = {x, router};
    inputs.insert(inputs.end(), matrices.begin(), matrices.end());
    return torch::autograd::grad({(out * out).sum()}, inputs);
  }

  at::Tensor x, router;
  std::vector<at::Tensor> matrices;
  std::vector<std::size_t> called;
};

TEST(ExpertsTest, OutputsAndGradientsEqualThoseOfEveryExpertOnEveryRow) {
  for (const ExpertSpec spec : {ExpertSpec{kExperts, 2, true}, ExpertSpec{kExperts, 3, false},
                                ExpertSpec{kExperts, 1, false}, ExpertSpec{kExperts, 4, true}}) {
    MatrixExperts experts;
    const at::Tensor mixed = experts.Mix(spec);
    const at::Tensor dense = experts.Dense(spec);
    EXPECT_LT(MaxDifference(mixed, dense), 1e-5) << spec.top_k;
    const auto found = experts.Gradients(mixed);
    const auto expected = experts.Gradients(dense);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(MaxDifference(found[i], expected[i]), 1e-4) << spec.top_k << " input " << i;
    EXPECT_EQ(found.back().abs().max().item<double>(), 0.0);
  }
}

TEST(ExpertsTest, WithoutGradientsOnlyExpertsWithRowsRun) {
  MatrixExperts experts;
  const at::NoGradGuard no_grad;
  experts.Mix({kExperts, 4, true});
  EXPECT_EQ(experts.called, (std::vector<std::size_t>{0, 1, 2, 3}));
}

// Experts with a gate, an up and a down matrix that lie in one buffer, the third of them without
// rows: one product for all groups gives what a product for each gives.
TEST(ExpertsTest, GroupedProductsEqualThoseOfEachExpert) {
  torch::manual_seed(4);
  constexpr std::int64_t kF = 8, kD = 16, kOne = 3 * kF * kD;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor flat = torch::randn({4 * kOne}).mul_(0.3).to(type);
    std::vector<std::vector<at::Tensor>> gate_up, down;
    std::vector<at::Tensor> leaves = {torch::randn({9, kD}).to(type).requires_grad_()};
    const auto leaf = [&](std::int64_t offset, at::IntArrayRef shape) {
      leaves.push_back(flat.narrow(0, offset, kF * kD).view(shape).detach().requires_grad_());
      return leaves.back();
    };
    for (std::int64_t e = 0; e < 4; ++e) {
      const std::int64_t first = e * kOne;
      const at::Tensor gate = leaf(first, {kF, kD}), up = leaf(first + kF * kD, {kF, kD});
      gate_up.push_back({gate, up});
      down.push_back({leaf(first + 2 * kF * kD, {kD, kF})});
    }
    const std::vector<std::int64_t> counts = {4, 2, 0, 3};
    const at::Tensor ends = torch::tensor({4, 6, 6, 9}, at::kInt);
    const at::Tensor grouped =
        GroupedLinear(Gate(GroupedLinear(leaves[0], ends, gate_up), Activation::kSilu), ends, down);
    const auto parts = leaves[0].split_with_sizes(counts);
    std::vector<at::Tensor> outputs;
    for (std::size_t e = 0; e < 4; ++e) {
      outputs.push_back(Linear(Gate(Linear(parts[e], gate_up[e]), Activation::kSilu), down[e]));
    }
    const at::Tensor each = at::cat(outputs);
    const double bound = type == at::kFloat ? 1e-5 : 5e-2;
    EXPECT_LT(MaxDifference(grouped.to(at::kFloat), each.to(at::kFloat)), bound);
    const at::Tensor upstream = torch::randn_like(each);
    const auto found = torch::autograd::grad({grouped}, leaves, {upstream});
    const auto expected = torch::autograd::grad({each}, leaves, {upstream});
    for (std::size_t i = 0; i < leaves.size(); ++i)
      EXPECT_LT(MaxDifference(found[i].to(at::kFloat), expected[i].to(at::kFloat)), bound) << i;
  }
}

// A sum in bfloat16 would lose the small outputs next to the large one.
TEST(ExpertsTest, OutputsOfBfloat16AreSummedInFloat32) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::ones({1, 1}, at::kBFloat16);
  const at::Tensor mixed = MixExperts(
      {9, 9, false}, at::zeros({1, 9}), x,
      [&](std::size_t expert, const at::Tensor&) { return x * (expert == 0 ? 256 : 1); });
  EXPECT_EQ(mixed.scalar_type(), at::kBFloat16);
  EXPECT_EQ(mixed.item<double>(), at::scalar_tensor(264.0 / 9).to(at::kBFloat16).item<double>());
}

}  // namespace
}  // namespace buttress::experts_test
