// Row kernels for CPUs, where a LibTorch operator for each elementary step would cost more than the
// arithmetic. Torch-free; each is compiled for several instruction sets and the right one is taken
// at run time. A row's result depends on nothing but that row. Arithmetic is in float32 whatever
// the storage. Not parallel: callers split rows over threads.
#pragma once

#include <cstdint>

namespace buttress {

// Storage of a bfloat16, laid out as c10::BFloat16.
struct Bf16 {
  std::uint16_t bits;
};

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight; rows of D values. `scale` (one per row, may be
// null) keeps 1 / sqrt(...).
void RmsNormRows(const float* x, const float* weight, float* out, float* scale, std::int64_t rows,
                 std::int64_t D, float eps);
void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale, std::int64_t rows,
                 std::int64_t D, float eps);

// Gradients of it: grad_x is set; grad_weight [D], float32, is added to.
template <class T>
struct RmsNormGrad {
  const T* x;
  const T* weight;
  const float* scale;
  const T* grad_out;
  T* grad_x;
  float* grad_weight;
};

void RmsNormGradRows(const RmsNormGrad<float>& args, std::int64_t rows, std::int64_t D);
void RmsNormGradRows(const RmsNormGrad<Bf16>& args, std::int64_t rows, std::int64_t D);

// out[r] = silu(gate[r]) * up[r]; gate_up has rows of 2F values, gate first.
void SwiGluRows(const float* gate_up, float* out, std::int64_t rows, std::int64_t F);
void SwiGluRows(const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t F);
void SwiGluGradRows(const float* gate_up, const float* grad_out, float* grad_gate_up,
                    std::int64_t rows, std::int64_t F);
void SwiGluGradRows(const Bf16* gate_up, const Bf16* grad_out, Bf16* grad_gate_up,
                    std::int64_t rows, std::int64_t F);

// Rotates heads of C values: out[i] = x[i] * cos[i] + direction * x[(i + C/2) % C] * sin[i] (sin
// carries the half's sign). Rows of x are `stride` apart, of out `out_stride`; cos and sin are
// tables with a row of C values for each position. x and out may be the same.
struct RopeRowsArgs {
  const std::int64_t* positions;
  const float* cos;
  const float* sin;
  float direction;  // 1; -1 turns back, which is the gradient
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t C;
  std::int64_t stride;
  std::int64_t out_stride;
};

void RopeRows(const float* x, float* out, const RopeRowsArgs& args);
void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args);

}  // namespace buttress
