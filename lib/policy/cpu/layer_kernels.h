// CPU kernels of the elementary layers: RMSNorm, gated activations and RoPE, where a LibTorch
// operator for each step would cost more than the arithmetic; and the softmax of sampling.
//
// The kernels do not use torch. Each is compiled for several instruction sets, one of which is
// chosen at run time. The result of a row depends on that row alone. Arithmetic is in float32 for
// either storage. The kernels are single-threaded; callers divide rows among threads (ForRows).
#pragma once

#include <cstdint>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// A stored bfloat16, with the layout of c10::BFloat16.
struct Bf16 {
  std::uint16_t bits;
};

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * (offset + weight), for rows of D values. Unless it is
// null, scale[r] is set to 1 / sqrt(mean(x[r]^2) + eps). x and out may be the same. Without an
// offset, bfloat16 rounds x[r] * scale[r] first, as transformers does.
template <class T>
struct RmsNormArgs {
  const T* x;
  const T* weight;
  T* out;
  float* scale;
  std::int64_t rows;
  std::int64_t D;
  float eps;
  float offset;
};

void RmsNormRows(const RmsNormArgs<float>& args);
void RmsNormRows(const RmsNormArgs<Bf16>& args);

// The gradients of RmsNormRows: grad_x is set, grad_weight [D], in float32, is added to.
template <class T>
struct RmsNormGradArgs {
  const T* x;
  const T* weight;
  const float* scale;
  const T* grad_out;
  T* grad_x;
  float* grad_weight;
  std::int64_t rows;
  std::int64_t D;
  float offset;
};

void RmsNormGradRows(const RmsNormGradArgs<float>& args);
void RmsNormGradRows(const RmsNormGradArgs<Bf16>& args);

// out[r] = activation(gate[r]) * up[r], for rows of gate_up with 2F values, gate first.
template <class T>
struct GateArgs {
  const T* gate_up;
  T* out;
  std::int64_t rows;
  std::int64_t F;
  Activation activation;
};

void GateRows(const GateArgs<float>& args);
void GateRows(const GateArgs<Bf16>& args);

template <class T>
struct GateGradArgs {
  const T* gate_up;
  const T* grad_out;
  T* grad_gate_up;
  std::int64_t rows;
  std::int64_t F;
  Activation activation;
};

void GateGradRows(const GateGradArgs<float>& args);
void GateGradRows(const GateGradArgs<Bf16>& args);

// Rotates heads of C values: out[i] = x[i] * cos[i] + direction * x[(i + C/2) % C] * sin[i], where
// sin has the sign of its half. cos and sin are tables with a row of C values for each position.
// The rows of x are `stride` values apart and are replaced.
template <class T>
struct RopeArgs {
  T* x;
  const std::int64_t* positions;
  const float* cos;
  const float* sin;
  float direction;  // 1, or -1 for the gradient
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t C;
  std::int64_t stride;
};

void RopeRows(const RopeArgs<float>& args);
void RopeRows(const RopeArgs<Bf16>& args);

// The number of weights in each partial sum.
inline constexpr std::int64_t kSumRun = 256;

// Sets weights[i] = exp((logits[i] - max) * scale), and sums [ceil(V / kSumRun)] to the sums of
// each kSumRun weights. Returns max. If a logit is NaN or +infinity, the sums are NaN.
float ExpRow(const float* logits, float scale, float* weights, double* sums, std::int64_t V);

}  // namespace buttress
