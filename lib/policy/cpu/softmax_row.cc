#include "lib/policy/cpu/softmax_row.h"

#include <algorithm>
#include <limits>

#include "lib/policy/cpu/vector.h"

namespace buttress {
namespace {

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
