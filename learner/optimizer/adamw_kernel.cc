#include "learner/optimizer/adamw_kernel.h"

#include "lib/policy/cpu/vector.h"

namespace buttress {

BUTTRESS_KERNEL void StochasticAdamWOnCpu(const AdamWRange& range) {
  const AdamWRange own = range;
#pragma omp simd
  for (std::int64_t i = 0; i < own.count; ++i) UpdateStochastically(own, i);
}

}  // namespace buttress
