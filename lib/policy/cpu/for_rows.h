// Runs the kernels of this folder over the rows of tensors.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

// While one exists, the model runs on CPUs the operators of LibTorch that it runs on GPUs, in all
// threads. For tests of those branches.
class PortableOnly {
 public:
  PortableOnly() { ++count_; }

  ~PortableOnly() { --count_; }

  PortableOnly(const PortableOnly&) = delete;
  PortableOnly& operator=(const PortableOnly&) = delete;

  static bool active() { return count_ > 0; }

 private:
  static inline std::atomic<int> count_ = 0;
};

// Returns whether the kernels support the tensor: a CPU tensor in float32 or bfloat16. Every choice
// between the kernels and the operators of LibTorch asks this function.
inline bool HasRowKernels(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         !PortableOnly::active();
}

// Returns row `row` of a tensor with contiguous rows.
template <class T>
const T* Rows(const at::Tensor& x, std::int64_t row) {
  return static_cast<const T*>(x.const_data_ptr()) + row * x.stride(0);
}

template <class T>
T* MutableRows(at::Tensor& x, std::int64_t row) {
  return static_cast<T*>(x.mutable_data_ptr()) + row * x.stride(0);
}

// Divides `count` rows among threads and calls `kernel(first, rows)` for each share. `row_work`
// estimates the operations for one row.
template <class Kernel>
void ForShares(std::int64_t count, std::int64_t row_work, const Kernel& kernel) {
  constexpr std::int64_t kMinWork = 32768;  // a thread with less work costs more than it saves
  const std::int64_t grain =
      std::max<std::int64_t>(1, kMinWork / std::max<std::int64_t>(1, row_work));
  at::parallel_for(0, count, grain,
                   [&](std::int64_t first, std::int64_t end) { kernel(first, end - first); });
}

// Calls `kernel(T(), first, rows)` likewise, where T is the storage type of x.
template <class Kernel>
void ForRows(const at::Tensor& x, std::int64_t count, std::int64_t row_work, const Kernel& kernel) {
  ForShares(count, row_work, [&](std::int64_t first, std::int64_t rows) {
    if (x.scalar_type() == at::kFloat) {
      kernel(float(), first, rows);
    } else {
      kernel(Bf16(), first, rows);
    }
  });
}

}  // namespace buttress
