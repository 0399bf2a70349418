// CPU kernels for matrix products in which every row of the result depends on its own row of the
// input alone, bit by bit: the linear layers and the head of a decoder, and the learner where it
// has to give the bits of the decoder. They are fast for the few rows of decoding, where reading
// the weight takes most of the time. layer_kernels.h describes what all kernels have in common.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// The rows of a weight [V, D] that one block holds. A block of 64 rows w has the layout [D, 64] in
// float32: w[0][0], w[1][0], ..., w[0][1], ..., and [D / 2, 64, 2] in bfloat16: w[0][0], w[0][1],
// w[1][0], w[1][1], ..., w[0][2], w[0][3], ...
inline constexpr std::int64_t kBlockRows = 64;

// Sets block [kBlockRows * D] to `rows` <= kBlockRows rows of the weight and zeros for the others.
// In bfloat16 D is even.
void PackBlock(const float* weight, std::int64_t rows, std::int64_t D, float* block);
void PackBlock(const Bf16* weight, std::int64_t rows, std::int64_t D, Bf16* block);

// Sets out[r][c] to the sum of x[r][i] * w[c][i] over i < D plus bias[c], unless it is null, for
// `columns` <= kBlockRows values c. Sums are in float32 and rounded once. Rows of x are D values
// apart, and those of `out` `stride` values.
template <class T, class Out>
struct BlockProductArgs {
  const T* x;
  const T* block;
  const T* bias;
  Out* out;
  std::int64_t rows;
  std::int64_t D;
  std::int64_t columns;
  std::int64_t stride;
};

void BlockProduct(const BlockProductArgs<float, float>& args);
void BlockProduct(const BlockProductArgs<Bf16, Bf16>& args);
void BlockProduct(const BlockProductArgs<Bf16, float>& args);

// What they run on processors without AVX-512, or its instruction for bfloat16.
void PlainBlockProduct(const BlockProductArgs<float, float>& args);
void PlainBlockProduct(const BlockProductArgs<Bf16, Bf16>& args);
void PlainBlockProduct(const BlockProductArgs<Bf16, float>& args);

}  // namespace buttress
