// Counts the bytes that LibTorch's tensors on the CPU hold. Torch.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace buttress {

// Counts what this thread allocates and frees between construction and destruction.
class LiveBytes {
 public:
  // The bytes that were allocated since construction and are not freed.
  std::int64_t now() const { return counter_->live; }

  // The most that it was.
  std::int64_t peak() const { return counter_->peak; }

 private:
  struct Counter final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void* /*ptr*/, std::int64_t size, std::size_t /*allocated*/,
                           std::size_t /*reserved*/, c10::Device /*device*/) override {
      const std::int64_t after = live += size;
      std::int64_t before = peak;
      while (after > before && !peak.compare_exchange_weak(before, after)) {
      }
    }

    bool memoryProfilingEnabled() const override { return true; }

    std::atomic<std::int64_t> live{0};
    std::atomic<std::int64_t> peak{0};
  };

  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter_};
};

}  // namespace buttress
