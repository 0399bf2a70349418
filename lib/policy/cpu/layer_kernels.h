// CPU kernels of the elementary layers: RMSNorm, gated activations and RoPE, where a LibTorch
// operator for each step would cost more than the arithmetic.
//
// The kernels do not use torch. Each is compiled for several instruction sets, one of which is
// chosen at run time. The result of a row depends on that row alone. Arithmetic is in float32 for
// either storage. The kernels are single-threaded; callers divide rows among threads (ForRows).
#pragma once

#include <cstdint>

#include "lib/policy/block_spec.h"

namespace buttress {

// A stored bfloat16, with the layout of c10::BFloat16.
struct Bf16 {
  std::uint16_t bits;
};

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * (offset + weight), for rows of D values. Unless it is
// null, scale[r] is set to 1 / sqrt(mean(x[r]^2) + eps). x and out may be the same. Without an
// offset, bfloat16 rounds x[r] * scale[r] first, as transformers does.
struct RmsNormArgs {
  std::int64_t rows;
  std::int64_t D;
  float eps;
  float offset;
};

void RmsNormRows(const float* x, const float* weight, float* out, float* scale,
                 const RmsNormArgs& args);
void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale,
                 const RmsNormArgs& args);

// The gradients of RmsNormRows: grad_x is set, grad_weight [D], in float32, is added to.
template <class T>
struct RmsNormGrad {
  const T* x;
  const T* weight;
  const float* scale;
  const T* grad_out;
  T* grad_x;
  float* grad_weight;
  float offset;
};

void RmsNormGradRows(const RmsNormGrad<float>& args, std::int64_t rows, std::int64_t D);
void RmsNormGradRows(const RmsNormGrad<Bf16>& args, std::int64_t rows, std::int64_t D);

// out[r] = activation(gate[r]) * up[r], for rows of gate_up with 2F values, gate first.
void GateRows(const float* gate_up, float* out, std::int64_t rows, std::int64_t F,
              Activation activation);
void GateRows(const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t F,
              Activation activation);
void GateGradRows(const float* gate_up, const float* grad_out, float* grad_gate_up,
                  std::int64_t rows, std::int64_t F, Activation activation);
void GateGradRows(const Bf16* gate_up, const Bf16* grad_out, Bf16* grad_gate_up, std::int64_t rows,
                  std::int64_t F, Activation activation);

// Rotates heads of C values: out[i] = x[i] * cos[i] + direction * x[(i + C/2) % C] * sin[i], where
// sin has the sign of its half. cos and sin are tables with a row of C values for each position.
// The rows of x and out are `stride` and `out_stride` values apart. x and out may be the same.
struct RopeRowsArgs {
  const std::int64_t* positions;
  const float* cos;
  const float* sin;
  float direction;  // 1, or -1 for the gradient
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t C;
  std::int64_t stride;
  std::int64_t out_stride;
};

void RopeRows(const float* x, float* out, const RopeRowsArgs& args);
void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args);

}  // namespace buttress
