// The exponentials that sampling draws from. Torch-free; see layer_kernels.h.
#pragma once

#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// Values that share one sum.
inline constexpr std::int64_t kSumRun = 256;

// weights[i] = exp((logits[i] - max) * scale), and the sum of each kSumRun of them in `sums`
// [ceil(V / kSumRun)]. Returns max. A logit that is not a number, or +infinity, gives sums that are
// not numbers.
float ExpRow(const float* logits, float scale, float* weights, double* sums, std::int64_t V);
float ExpRow(const Bf16* logits, float scale, float* weights, double* sums, std::int64_t V);

}  // namespace buttress
