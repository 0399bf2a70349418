// A CPU kernel for the softmax of sampling. layer_kernels.h describes what all kernels have in
// common.
#pragma once

#include <cstdint>

namespace buttress {

// The number of weights in each partial sum.
inline constexpr std::int64_t kSumRun = 256;

// Sets weights[i] = exp((logits[i] - max) * scale), and sums [ceil(V / kSumRun)] to the sums of
// each kSumRun weights. Returns max. If a logit is NaN or +infinity, the sums are NaN.
float ExpRow(const float* logits, float scale, float* weights, double* sums, std::int64_t V);

}  // namespace buttress
