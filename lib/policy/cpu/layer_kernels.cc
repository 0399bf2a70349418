#include "lib/policy/cpu/layer_kernels.h"

#include <cmath>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

template <class T>
BUTTRESS_INLINE void RmsNormBody(const T* x, const T* weight, T* out, float* scale,
                                 std::int64_t rows, std::int64_t D, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += D, out += D) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < D; ++i) sum += Get(x[i]) * Get(x[i]);
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(D) + eps);
    if (scale != nullptr) scale[r] = factor;
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) {
      T normed;
      Put(normed, Get(x[i]) * factor);
      Put(out[i], Get(weight[i]) * Get(normed));
    }
  }
}

// With s = scale: dx = s w dy - x s^3 / D * sum(dy w x), and dw = sum of dy x s over the rows.
template <class T>
BUTTRESS_INLINE void RmsNormGradBody(const RmsNormGrad<T>& a, std::int64_t rows, std::int64_t D) {
  const T* x = a.x;
  const T* grad_out = a.grad_out;
  T* grad_x = a.grad_x;
  for (std::int64_t r = 0; r < rows; ++r, x += D, grad_out += D, grad_x += D) {
    const float s = a.scale[r];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < D; ++i) dot += Get(grad_out[i]) * Get(a.weight[i]) * Get(x[i]);
    const float pull = dot * s * s * s / static_cast<float>(D);
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) {
      const float value = Get(x[i]);
      const float grad = Get(grad_out[i]);
      a.grad_weight[i] += grad * value * s;
      Put(grad_x[i], grad * Get(a.weight[i]) * s - value * pull);
    }
  }
}

template <class T>
BUTTRESS_INLINE void SwiGluBody(const T* gate_up, T* out, std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * F, out += F) {
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float gate = Get(gate_up[i]);
      Put(out[i], gate / (1.0f + Exp(-gate)) * Get(gate_up[F + i]));
    }
  }
}

// With g = sigmoid(gate), the derivative of silu is g (1 + gate (1 - g)).
template <class T>
BUTTRESS_INLINE void SwiGluGradBody(const T* gate_up, const T* grad_out, T* grad_gate_up,
                                    std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * F, grad_gate_up += 2 * F, grad_out += F) {
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float gate = Get(gate_up[i]);
      const float up = Get(gate_up[F + i]);
      const float grad = Get(grad_out[i]);
      const float sigmoid = 1.0f / (1.0f + Exp(-gate));
      Put(grad_gate_up[i], grad * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)));
      Put(grad_gate_up[F + i], grad * gate * sigmoid);
    }
  }
}

template <class T>
BUTTRESS_INLINE void RopeBody(const T* x, T* out, const RopeRowsArgs& a) {
  const std::int64_t half = a.C / 2;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* cos = a.cos + a.positions[r] * a.C;
    const float* sin = a.sin + a.positions[r] * a.C;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const T* in = x + r * a.stride + h * a.C;
      T* to = out + r * a.out_stride + h * a.C;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float left = Get(in[i]);
        const float right = Get(in[i + half]);
        Put(to[i], left * cos[i] + right * sin[i] * a.direction);
        Put(to[i + half], right * cos[i + half] + left * sin[i + half] * a.direction);
      }
    }
  }
}

}  // namespace

BUTTRESS_KERNEL void RmsNormRows(const float* x, const float* weight, float* out, float* scale,
                                 std::int64_t rows, std::int64_t D, float eps) {
  RmsNormBody(x, weight, out, scale, rows, D, eps);
}

BUTTRESS_KERNEL void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale,
                                 std::int64_t rows, std::int64_t D, float eps) {
  RmsNormBody(x, weight, out, scale, rows, D, eps);
}

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGrad<float>& args, std::int64_t rows,
                                     std::int64_t D) {
  RmsNormGradBody(args, rows, D);
}

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGrad<Bf16>& args, std::int64_t rows,
                                     std::int64_t D) {
  RmsNormGradBody(args, rows, D);
}

BUTTRESS_KERNEL void SwiGluRows(const float* gate_up, float* out, std::int64_t rows,
                                std::int64_t F) {
  SwiGluBody(gate_up, out, rows, F);
}

BUTTRESS_KERNEL void SwiGluRows(const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t F) {
  SwiGluBody(gate_up, out, rows, F);
}

BUTTRESS_KERNEL void SwiGluGradRows(const float* gate_up, const float* grad_out,
                                    float* grad_gate_up, std::int64_t rows, std::int64_t F) {
  SwiGluGradBody(gate_up, grad_out, grad_gate_up, rows, F);
}

BUTTRESS_KERNEL void SwiGluGradRows(const Bf16* gate_up, const Bf16* grad_out, Bf16* grad_gate_up,
                                    std::int64_t rows, std::int64_t F) {
  SwiGluGradBody(gate_up, grad_out, grad_gate_up, rows, F);
}

BUTTRESS_KERNEL void RopeRows(const float* x, float* out, const RopeRowsArgs& args) {
  RopeBody(x, out, args);
}

BUTTRESS_KERNEL void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args) {
  RopeBody(x, out, args);
}

}  // namespace buttress
