// How long workers need for a group, and from when on a lease is late.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace buttress {

// Times are in milliseconds. Not thread-safe.
class LeaseTimes {
 public:
  // A lease is late after so many medians of the times of the last kKept groups. The median is not
  // moved by a worker that delivers less than half of them.
  static constexpr std::int64_t kLateMedians = 4;
  static constexpr std::int64_t kSoonestMs = 1000;
  static constexpr std::size_t kKept = 128, kEnough = 16;

  // Records that a group was delivered `ms` after its lease was granted.
  void Add(std::int64_t ms) {
    times_[count_++ % kKept] = ms;
    late_ms_.reset();
  }

  // Returns the age from which on a lease is late; nullopt after fewer than kEnough groups.
  std::optional<std::int64_t> late_ms() {
    if (count_ < kEnough) return std::nullopt;
    if (!late_ms_) late_ms_ = std::max(kSoonestMs, kLateMedians * Median());
    return late_ms_;
  }

 private:
  std::int64_t Median() const {
    std::array<std::int64_t, kKept> sorted = times_;
    const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kKept));
    const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
    std::nth_element(sorted.begin(), middle, end);
    return *middle;
  }

  std::array<std::int64_t, kKept> times_{};  // of the group n in place n % kKept
  std::size_t count_ = 0;
  std::optional<std::int64_t> late_ms_;  // of the times that are kept; nullopt: not known yet
};

}  // namespace buttress
