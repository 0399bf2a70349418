// Rotary position embedding (Su et al., "RoFormer", arXiv 2104.09864), which rotates the halves of
// a head as Hugging Face's Qwen2 does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Tables of cos and sin of the angles of a RopeSpec in float32, which grow with the longest
// sequence. Not thread-safe.
class RopeTable {
 public:
  RopeTable(std::int64_t head_dim, const RopeSpec& spec, at::Device device);

  // Rotates the first `heads` heads of x [N, heads * C or more] by the positions of their rows, and
  // returns the result, for which it may reuse the memory of x. Computes in float32 and keeps the
  // dtype of x. Differentiable. REQUIRES: every position is below `end`.
  at::Tensor Rotate(at::Tensor x, std::int64_t heads, const at::Tensor& positions_N,
                    std::int64_t end);

 private:
  void Grow(std::int64_t end);

  std::int64_t head_dim_;
  RopeSpec spec_;
  at::Device device_;
  at::Tensor cos_PC_;  // [positions, C]; the second half repeats the first
  at::Tensor sin_PC_;  // [positions, C]; the first half is negated, the sign of rotate_half
};

}  // namespace buttress
