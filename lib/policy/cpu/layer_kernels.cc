#include "lib/policy/cpu/layer_kernels.h"

#include <cmath>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

template <class T>
BUTTRESS_INLINE void RmsNormBody(const T* x, const T* weight, T* out, float* scale,
                                 const RmsNormArgs& a) {
  const std::int64_t D = a.D;
  for (std::int64_t r = 0; r < a.rows; ++r, x += D, out += D) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < D; ++i) sum += Get(x[i]) * Get(x[i]);
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(D) + a.eps);
    if (scale != nullptr) scale[r] = factor;
    if (a.offset == 0.0f) {
#pragma omp simd
      for (std::int64_t i = 0; i < D; ++i) {
        T normed;
        Put(normed, Get(x[i]) * factor);
        Put(out[i], Get(weight[i]) * Get(normed));
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < D; ++i)
        Put(out[i], (a.offset + Get(weight[i])) * (Get(x[i]) * factor));
    }
  }
}

// With s = scale and w = offset + weight:
//   dx = s w dy - x s^3 / D * sum(dy w x)      dw = sum of dy x s over the rows
template <class T>
BUTTRESS_INLINE void RmsNormGradBody(const RmsNormGrad<T>& a, std::int64_t rows, std::int64_t D) {
  const T* x = a.x;
  const T* grad_out = a.grad_out;
  T* grad_x = a.grad_x;
  for (std::int64_t r = 0; r < rows; ++r, x += D, grad_out += D, grad_x += D) {
    const float s = a.scale[r];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < D; ++i)
      dot += Get(grad_out[i]) * (a.offset + Get(a.weight[i])) * Get(x[i]);
    const float pull = dot * s * s * s / static_cast<float>(D);
#pragma omp simd
    for (std::int64_t i = 0; i < D; ++i) {
      const float value = Get(x[i]);
      const float grad = Get(grad_out[i]);
      a.grad_weight[i] += grad * value * s;
      Put(grad_x[i], grad * (a.offset + Get(a.weight[i])) * s - value * pull);
    }
  }
}

// Both activations are x * sigmoid(a(x)); Slope is the derivative of a.
struct Silu {
  [[gnu::always_inline]] static float Argument(float x) { return x; }

  [[gnu::always_inline]] static float Slope(float /*x*/) { return 1.0f; }
};

// gelu's approximation 0.5 x (1 + tanh(b (x + c x^3))), and 0.5 (1 + tanh(y)) = sigmoid(2y).
struct GeluTanh {
  static constexpr float kTwoB = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  static constexpr float kC = 0.044715f;

  [[gnu::always_inline]] static float Argument(float x) { return kTwoB * (x + kC * x * x * x); }

  [[gnu::always_inline]] static float Slope(float x) { return kTwoB * (1.0f + 3.0f * kC * x * x); }
};

template <class A, class T>
BUTTRESS_INLINE void GateBody(const T* gate_up, T* out, std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * F, out += F) {
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float gate = Get(gate_up[i]);
      Put(out[i], gate / (1.0f + Exp(-A::Argument(gate))) * Get(gate_up[F + i]));
    }
  }
}

// With g = sigmoid(a(gate)), the derivative of the activation is g (1 + gate (1 - g) a'(gate)).
template <class A, class T>
BUTTRESS_INLINE void GateGradBody(const T* gate_up, const T* grad_out, T* grad_gate_up,
                                  std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * F, grad_gate_up += 2 * F, grad_out += F) {
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float gate = Get(gate_up[i]);
      const float up = Get(gate_up[F + i]);
      const float grad = Get(grad_out[i]);
      const float sigmoid = 1.0f / (1.0f + Exp(-A::Argument(gate)));
      const float slope = A::Slope(gate);
      Put(grad_gate_up[i], grad * up * sigmoid * (1.0f + gate * (1.0f - sigmoid) * slope));
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
                                 const RmsNormArgs& args) {
  RmsNormBody(x, weight, out, scale, args);
}

BUTTRESS_KERNEL void RmsNormRows(const Bf16* x, const Bf16* weight, Bf16* out, float* scale,
                                 const RmsNormArgs& args) {
  RmsNormBody(x, weight, out, scale, args);
}

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGrad<float>& args, std::int64_t rows,
                                     std::int64_t D) {
  RmsNormGradBody(args, rows, D);
}

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGrad<Bf16>& args, std::int64_t rows,
                                     std::int64_t D) {
  RmsNormGradBody(args, rows, D);
}

BUTTRESS_KERNEL void GateRows(const float* gate_up, float* out, std::int64_t rows, std::int64_t F,
                              Activation activation) {
  if (activation == Activation::kSilu) {
    GateBody<Silu>(gate_up, out, rows, F);
  } else {
    GateBody<GeluTanh>(gate_up, out, rows, F);
  }
}

BUTTRESS_KERNEL void GateGradRows(const float* gate_up, const float* grad_out, float* grad_gate_up,
                                  std::int64_t rows, std::int64_t F, Activation activation) {
  if (activation == Activation::kSilu) {
    GateGradBody<Silu>(gate_up, grad_out, grad_gate_up, rows, F);
  } else {
    GateGradBody<GeluTanh>(gate_up, grad_out, grad_gate_up, rows, F);
  }
}

BUTTRESS_KERNEL void GateRows(const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t F,
                              Activation activation) {
  if (activation == Activation::kSilu) {
    GateBody<Silu>(gate_up, out, rows, F);
  } else {
    GateBody<GeluTanh>(gate_up, out, rows, F);
  }
}

BUTTRESS_KERNEL void GateGradRows(const Bf16* gate_up, const Bf16* grad_out, Bf16* grad_gate_up,
                                  std::int64_t rows, std::int64_t F, Activation activation) {
  if (activation == Activation::kSilu) {
    GateGradBody<Silu>(gate_up, grad_out, grad_gate_up, rows, F);
  } else {
    GateGradBody<GeluTanh>(gate_up, grad_out, grad_gate_up, rows, F);
  }
}

BUTTRESS_KERNEL void RopeRows(const float* x, float* out, const RopeRowsArgs& args) {
  RopeBody(x, out, args);
}

BUTTRESS_KERNEL void RopeRows(const Bf16* x, Bf16* out, const RopeRowsArgs& args) {
  RopeBody(x, out, args);
}

}  // namespace buttress
