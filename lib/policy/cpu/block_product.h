// CPU kernels for the head of a decoder: products of bfloat16 matrices with sums and results in
// float32, for the few rows of decoding, where reading the weight takes most of the time.
// layer_kernels.h describes what all kernels have in common.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The rows of a weight [V, D] that one block holds. A block of 64 rows w has the layout
// [D / 2, 64, 2]: w[0][0], w[0][1], w[1][0], w[1][1], ..., w[0][2], w[0][3], ...
inline constexpr std::int64_t kBlockRows = 64;

// Sets block [kBlockRows * D] to `rows` <= kBlockRows rows of the weight and zeros for the others.
// D is even.
void PackBlock(const Bf16* weight, std::int64_t rows, std::int64_t D, Bf16* block);

// Sets out[r][c] to the sum of x[r][i] * w[c][i] over i < D, for kBlockRows values c. Rows of x
// are D values apart, D even, and those of `out` are `stride` values apart.
struct BlockProductArgs {
  const Bf16* x;
  const Bf16* block;
  float* out;
  std::int64_t rows;
  std::int64_t D;
  std::int64_t stride;
};

void BlockProduct(const BlockProductArgs& args);

// What BlockProduct runs on processors without AVX-512 BF16.
void PlainBlockProduct(const BlockProductArgs& args);

}  // namespace buttress
