// Flash attention next to the attentions for CPUs. Every test of this program that leaves out the
// kernels of the CPU, such as those next to transformers, runs it too.
#include "lib/policy/layers/varlen_attention.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "lib/policy/cpu/for_rows.h"
#include "lib/policy/layers/attention.h"
#include "tests/support/fakes/cpu_flash_attention.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/policy/golden.h"

TORCH_LIBRARY_IMPL(aten, CPU, library) { buttress::RegisterCpuFlashAttention(library); }

namespace buttress {
namespace {

struct PackedLengths {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> prefixes;

  // Appends a prompt with completions behind it.
  void AddGroup(std::int64_t prompt, const std::vector<std::int64_t>& completions) {
    const auto first = static_cast<std::int64_t>(lengths.size());
    lengths.push_back(prompt);
    prefixes.push_back(-1);
    for (const std::int64_t length : completions) {
      lengths.push_back(length);
      prefixes.push_back(first);
    }
  }
};

std::vector<PackedLengths> Batches() {
  std::vector<PackedLengths> batches(5);
  batches[0] = {{1}, {-1}};
  batches[1] = {{1, 9, 3, 64, 17, 1}, {-1, -1, -1, -1, -1, -1}};
  std::vector<std::int64_t> sixteen;
  for (std::int64_t i = 0; i < 16; ++i) sixteen.push_back(1 + 3 * i);
  batches[2].AddGroup(12, sixteen);
  batches[3].AddGroup(1, {1, 1, 2});
  batches[3].AddGroup(40, {});
  batches[3].AddGroup(33, {5, 30, 1, 17});
  batches[3].AddGroup(7, {1});
  batches[4].AddGroup(100, {90, 3, 200});  // longer than the kernel for short sequences takes
  batches[4].AddGroup(20, {70, 80});
  return batches;
}

std::vector<AttentionSpec> Specs() {
  return {{4, 4, 8},
          {6, 2, 16},
          {5, 1, 24},
          {.H = 4, .K = 4, .C = 8, .scale = 0.3, .window = 7},
          {.H = 6, .K = 2, .C = 16, .window = 1},
          {.H = 5, .K = 1, .C = 24, .window = 50}};
}

// Returns the output and the gradient in qkv. Parts have at most `most_keys` key rows.
std::pair<at::Tensor, at::Tensor> AttendAndDifferentiate(const PackedLengths& batch,
                                                         const AttentionSpec& spec,
                                                         const at::Tensor& values,
                                                         const at::Tensor& grad,
                                                         std::int64_t most_keys = kVarlenKeys) {
  PackedLayout layout = LayOut(batch.lengths, batch.prefixes, at::kCPU);
  BlockSpec block;
  block.attention = spec;
  const at::Tensor qkv = values.clone().requires_grad_();
  PrepareAttention(layout, {block}, qkv);
  if (!layout.varlen.empty()) layout.varlen = LayOutVarlen(layout, most_keys);
  const at::Tensor out = CausalAttention(layout, qkv, spec);
  return {out.detach(), torch::autograd::grad({out}, {qkv}, {grad}).front()};
}

TEST(VarlenAttentionTest, OutputsAndGradientsEqualThoseOfTheOtherAttentions) {
  torch::manual_seed(5);
  for (const PackedLengths& batch : Batches()) {
    std::int64_t N = 0;
    for (const std::int64_t length : batch.lengths) N += length;
    for (const AttentionSpec& spec : Specs()) {
      const at::Tensor qkv = at::randn({N, (spec.H + 2 * spec.K) * spec.C});
      const at::Tensor grad = at::randn({N, spec.H * spec.C});
      const auto expected = AttendAndDifferentiate(batch, spec, qkv, grad);
      const PortableOnly flash;
      ASSERT_TRUE(UsesVarlenAttention(qkv, spec));
      for (const std::int64_t most_keys : {kVarlenKeys, std::int64_t{60}}) {
        const auto found = AttendAndDifferentiate(batch, spec, qkv, grad, most_keys);
        EXPECT_LT(MaxDifference(found.first, expected.first), 1e-5) << N << " " << spec.window;
        EXPECT_LT(MaxDifference(found.second, expected.second), 2e-5) << N << " " << spec.window;
      }
    }
  }
}

TEST(VarlenAttentionTest, ThePathIsChosenByDeviceLengthsAndSpec) {
  const AttentionSpec plain = {4, 2, 16};
  AttentionSpec capped = plain, windowed = plain;
  capped.score_cap = 30;
  windowed.window = 8;
  const auto path = [](std::int64_t length, const AttentionSpec& spec) {
    const PackedLayout layout = LayOut(std::vector{length}, {}, at::kCPU);
    return PathOf(layout, at::zeros({length, (spec.H + 2 * spec.K) * spec.C}), spec);
  };
  EXPECT_EQ(path(40, plain), AttentionPath::kShort);
  EXPECT_EQ(path(400, plain), AttentionPath::kDense);
  EXPECT_EQ(path(40, windowed), AttentionPath::kDense);
  const PortableOnly flash;
  EXPECT_EQ(path(40, plain), AttentionPath::kVarlen);
  EXPECT_EQ(path(400, windowed), AttentionPath::kVarlen);
  EXPECT_EQ(path(40, {4, 2, 256}), AttentionPath::kVarlen);
  EXPECT_EQ(path(40, capped), AttentionPath::kDense);
  EXPECT_EQ(path(40, {4, 2, 12}), AttentionPath::kDense);
  EXPECT_EQ(path(40, {4, 2, 264}), AttentionPath::kDense);
}

TEST(VarlenAttentionTest, PartsBoundTheKeyRows) {
  PackedLengths batch;
  batch.AddGroup(100, {20, 30, 10});
  batch.AddGroup(5, {7});
  const PackedLayout layout = LayOut(batch.lengths, batch.prefixes, at::kCPU);
  std::vector<std::pair<std::int64_t, std::int64_t>> rows_and_keys;
  for (const VarlenPart& part : LayOutVarlen(layout, 240))
    rows_and_keys.emplace_back(part.first_row, part.key_source_Q.size(0));
  EXPECT_EQ(rows_and_keys, (std::vector<std::pair<std::int64_t, std::int64_t>>{
                               {0, 100 + 120}, {120, 130 + 110}, {160, 5 + 12}}));
  const std::vector<std::int64_t> apart = {100, 200, 300};
  EXPECT_EQ(LayOutVarlen(LayOut(apart, {}, at::kCPU), 240).size(), 1u);
}

// The key rows of 64 completions behind a prompt of 200 tokens are 65 times the packed ones.
TEST(VarlenAttentionTest, TheBackwardPassKeepsNothingOfTheSizeOfTheKeyRows) {
  PackedLengths batch;
  batch.AddGroup(200, std::vector<std::int64_t>(64, 1));
  const AttentionSpec spec = {4, 4, 32};
  const PortableOnly flash;
  PackedLayout layout = LayOut(batch.lengths, batch.prefixes, at::kCPU);
  BlockSpec block;
  block.attention = spec;
  const at::Tensor qkv = at::randn({264, 12 * 32}).requires_grad_();
  PrepareAttention(layout, {block}, qkv);
  ASSERT_EQ(layout.varlen.front().key_source_Q.size(0), 200 + 64 * 201);
  const LiveBytes bytes;
  const at::Tensor out = CausalAttention(layout, qkv, spec);
  EXPECT_LE(bytes.now(), 2 * static_cast<std::int64_t>(out.nbytes()));
}

}  // namespace
}  // namespace buttress
