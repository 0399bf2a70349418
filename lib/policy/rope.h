// Rotary position embedding (Su et al., "RoFormer", arXiv 2104.09864), halves rotated as in Hugging Face's Qwen2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace buttress {

// cos and sin of position * theta^(-2i/C), float32, grown as longer sequences come. Not thread-safe.
class RopeTable {
 public:
  RopeTable(std::int64_t head_dim, double theta, at::Device device);

  // Rotates x [N, heads, C] by its rows' positions; x's dtype stays. REQUIRES: positions below `end`. Differentiable.
  at::Tensor Apply(const at::Tensor& x_NHC, const at::Tensor& positions_N, std::int64_t end);

 private:
  void Grow(std::int64_t end);

  std::int64_t head_dim_;
  double theta_;
  at::Device device_;
  at::Tensor cos_PC_;  // [positions, C], halves repeated
  at::Tensor sin_PC_;  // likewise, the first half negated: rotate_half's sign
};

}  // namespace buttress
