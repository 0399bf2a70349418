// Runs the row kernels of this folder over tensors. Included by the operators that have one.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// True for CPU tensors in float32 or bfloat16.
inline bool HasRowKernels(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Row `row` of a tensor whose rows are contiguous.
template <class T>
const T* Rows(const at::Tensor& x, std::int64_t row) {
  return static_cast<const T*>(x.const_data_ptr()) + row * x.stride(0);
}

template <class T>
T* MutableRows(at::Tensor& x, std::int64_t row) {
  return static_cast<T*>(x.mutable_data_ptr()) + row * x.stride(0);
}

// Calls `kernel(T(), first, rows)` on shares of `count` rows over threads, T the storage of x; a
// row costs about `row_work` operations.
template <class Kernel>
void ForRows(const at::Tensor& x, std::int64_t count, std::int64_t row_work, const Kernel& kernel) {
  constexpr std::int64_t kLeastWork = 32768;  // below it a second thread costs more than it brings
  const std::int64_t grain =
      std::max<std::int64_t>(1, kLeastWork / std::max<std::int64_t>(1, row_work));
  at::parallel_for(0, count, grain, [&](std::int64_t first, std::int64_t end) {
    if (x.scalar_type() == at::kFloat) {
      kernel(float(), first, end - first);
    } else {
      kernel(Bf16(), first, end - first);
    }
  });
}

}  // namespace buttress
