// Rotary position embedding (Su et al., "RoFormer", arXiv 2104.09864), halves rotated as in Hugging
// Face's Qwen2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace buttress {

// cos and sin of position * theta^(-2i/C), float32, grown as longer sequences come. Not
// thread-safe.
class RopeTable {
 public:
  RopeTable(std::int64_t head_dim, double theta, at::Device device);

  // Rotates the first `heads` heads of x [N, any heads * C] by their rows' positions, in place
  // where it can; use what is returned. The arithmetic is in float32, x's dtype stays.
  // Differentiable. REQUIRES: positions below `end`.
  at::Tensor Rotate(at::Tensor x, std::int64_t heads, const at::Tensor& positions_N,
                    std::int64_t end);

 private:
  void Grow(std::int64_t end);

  std::int64_t head_dim_;
  double theta_;
  at::Device device_;
  at::Tensor cos_PC_;  // [positions, C], halves repeated
  at::Tensor sin_PC_;  // likewise, the first half negated: rotate_half's sign
};

}  // namespace buttress
