// In which order the sources of a version are asked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/random.h"

namespace buttress {

// Remembers which sources have failed. Not thread-safe.
class SourceOrder {
 public:
  // A source that failed is asked last for this long.
  static constexpr std::int64_t kAvoidMs = 60000;

  // `seed` differs from process to process, so that they do not all ask the same worker first.
  explicit SourceOrder(std::uint64_t seed) : random_({seed, 0}) {}

  // `sources` as a manifest has them, the publisher first. Gives: workers in random order, so that
  // they share the load; the publisher, which everybody falls back to; last whatever failed within
  // kAvoidMs, in the same order.
  std::vector<std::string> Order(const std::vector<std::string>& sources, std::int64_t now_ms);

  void Failed(const std::string& source, std::int64_t now_ms) { failed_ms_[source] = now_ms; }

  void Worked(const std::string& source) { failed_ms_.erase(source); }

 private:
  RandomStream random_;
  std::map<std::string, std::int64_t> failed_ms_;  // when, monotonic
};

}  // namespace buttress
