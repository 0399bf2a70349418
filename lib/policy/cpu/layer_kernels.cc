#include "lib/policy/cpu/layer_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

template <class T>
BUTTRESS_INLINE void RmsNormBody(const RmsNormArgs<T>& a) {
  const T* x = a.x;
  const T* weight = a.weight;
  T* out = a.out;
  const std::int64_t D = a.D;
  for (std::int64_t r = 0; r < a.rows; ++r, x += D, out += D) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < D; ++i) sum += Get(x[i]) * Get(x[i]);
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(D) + a.eps);
    if (a.scale != nullptr) a.scale[r] = factor;
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
BUTTRESS_INLINE void RmsNormGradBody(const RmsNormGradArgs<T>& a) {
  const std::int64_t D = a.D;
  const T* x = a.x;
  const T* grad_out = a.grad_out;
  T* grad_x = a.grad_x;
  for (std::int64_t r = 0; r < a.rows; ++r, x += D, grad_out += D, grad_x += D) {
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
BUTTRESS_INLINE void GateWith(const GateArgs<T>& a) {
  const std::int64_t F = a.F;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* gate_up = a.gate_up + r * 2 * F;
    T* out = a.out + r * F;
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const float gate = Get(gate_up[i]);
      Put(out[i], gate / (1.0f + Exp(-A::Argument(gate))) * Get(gate_up[F + i]));
    }
  }
}

template <class T>
BUTTRESS_INLINE void GateBody(const GateArgs<T>& a) {
  a.activation == Activation::kSilu ? GateWith<Silu>(a) : GateWith<GeluTanh>(a);
}

// With g = sigmoid(a(gate)), the derivative of the activation is g (1 + gate (1 - g) a'(gate)).
template <class A, class T>
BUTTRESS_INLINE void GateGradWith(const GateGradArgs<T>& a) {
  const std::int64_t F = a.F;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* gate_up = a.gate_up + r * 2 * F;
    const T* grad_out = a.grad_out + r * F;
    T* grad_gate_up = a.grad_gate_up + r * 2 * F;
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
BUTTRESS_INLINE void GateGradBody(const GateGradArgs<T>& a) {
  a.activation == Activation::kSilu ? GateGradWith<Silu>(a) : GateGradWith<GeluTanh>(a);
}

template <class T>
BUTTRESS_INLINE void RopeBody(const RopeArgs<T>& a) {
  const std::int64_t half = a.C / 2;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* cos = a.cos + a.positions[r] * a.C;
    const float* sin = a.sin + a.positions[r] * a.C;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      T* x = a.x + r * a.stride + h * a.C;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const float left = Get(x[i]);
        const float right = Get(x[i + half]);
        Put(x[i], left * cos[i] + right * sin[i] * a.direction);
        Put(x[i + half], right * cos[i + half] + left * sin[i + half] * a.direction);
      }
    }
  }
}

// Returns NaN if a value is NaN.
BUTTRESS_INLINE float MaxOf(const float* values, std::int64_t count) {
  float top = -std::numeric_limits<float>::infinity();
  float poison = 0;
#pragma omp simd reduction(max : top) reduction(+ : poison)
  for (std::int64_t i = 0; i < count; ++i) {
    top = values[i] > top ? values[i] : top;
    poison += values[i] == values[i] ? 0.0f : 1.0f;
  }
  return poison > 0 ? std::numeric_limits<float>::quiet_NaN() : top;
}

}  // namespace

BUTTRESS_KERNEL void RmsNormRows(const RmsNormArgs<float>& args) { RmsNormBody(args); }

BUTTRESS_KERNEL void RmsNormRows(const RmsNormArgs<Bf16>& args) { RmsNormBody(args); }

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGradArgs<float>& args) { RmsNormGradBody(args); }

BUTTRESS_KERNEL void RmsNormGradRows(const RmsNormGradArgs<Bf16>& args) { RmsNormGradBody(args); }

BUTTRESS_KERNEL void GateRows(const GateArgs<float>& args) { GateBody(args); }

BUTTRESS_KERNEL void GateRows(const GateArgs<Bf16>& args) { GateBody(args); }

BUTTRESS_KERNEL void GateGradRows(const GateGradArgs<float>& args) { GateGradBody(args); }

BUTTRESS_KERNEL void GateGradRows(const GateGradArgs<Bf16>& args) { GateGradBody(args); }

BUTTRESS_KERNEL void RopeRows(const RopeArgs<float>& args) { RopeBody(args); }

BUTTRESS_KERNEL void RopeRows(const RopeArgs<Bf16>& args) { RopeBody(args); }

BUTTRESS_KERNEL float ExpRow(const float* logits, float scale, float* weights, double* sums,
                             std::int64_t V) {
  const float top = MaxOf(logits, V);
  for (std::int64_t first = 0; first < V; first += kSumRun) {
    const std::int64_t end = std::min(V, first + kSumRun);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < end; ++i) {
      weights[i] = Exp((logits[i] - top) * scale);
      sum += weights[i];
    }
    sums[first / kSumRun] = static_cast<double>(sum);
  }
  return top;
}

}  // namespace buttress
