// The bytes of tensors in host memory, for tests of what a process holds. Torch.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace buttress {

// Counts what LibTorch allocates on the CPU from its construction on. One for a process, which
// lives until it ends. Thread-safe.
class LiveBytes final : public c10::Allocator {
 public:
  LiveBytes() { c10::SetCPUAllocator(this, kPriority); }

  static std::int64_t now() { return live_; }

  static std::int64_t peak() { return peak_; }

  static void ResetPeak() { peak_ = live_.load(); }

  c10::DataPtr allocate(std::size_t bytes) override {
    auto* const block = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
    std::memcpy(block, &bytes, sizeof bytes);
    live_ += static_cast<std::int64_t>(bytes);
    peak_ = std::max(peak_.load(), live_.load());
    return {block + kHeader, block + kHeader, Free, c10::DeviceType::CPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return Free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 1;
  static constexpr std::size_t kHeader = 64;  // holds the size and keeps the alignment

  static void Free(void* data) {
    auto* const block = static_cast<char*>(data) - kHeader;
    std::size_t bytes = 0;
    std::memcpy(&bytes, block, sizeof bytes);
    live_ -= static_cast<std::int64_t>(bytes);
    c10::free_cpu(block);
  }

  static inline std::atomic<std::int64_t> live_{0};
  static inline std::atomic<std::int64_t> peak_{0};
};

}  // namespace buttress
