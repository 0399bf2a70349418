// The order in which the sources of a version are asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"

namespace buttress {

// Remembers which sources failed. Not thread-safe.
class SourceOrder {
 public:
  // A source that failed is asked last for this long.
  static constexpr std::int64_t kAvoidMs = 60000;

  // Processes pass different seeds, so that they do not all ask the same worker first.
  explicit SourceOrder(std::uint64_t seed) : random_({seed, 0}) {}

  // Orders the sources of a manifest, whose first is the publisher. Workers come first, in random
  // order, to share the load; then the publisher; then every source that failed within kAvoidMs, in
  // the same order.
  std::vector<std::string> Order(const std::vector<std::string>& sources, std::int64_t now_ms) {
    std::erase_if(failed_ms_, [&](const auto& entry) { return now_ms - entry.second >= kAvoidMs; });
    if (sources.empty()) return {};
    std::vector<std::string> order(sources.begin() + 1, sources.end());
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
    order.push_back(sources.front());
    std::stable_partition(order.begin(), order.end(),
                          [this](const auto& source) { return !failed_ms_.contains(source); });
    return order;
  }

  void RecordFailure(const std::string& source, std::int64_t now_ms) {
    failed_ms_[source] = now_ms;
  }

  void RecordSuccess(const std::string& source) { failed_ms_.erase(source); }

 private:
  RandomStream random_;
  std::map<std::string, std::int64_t> failed_ms_;  // monotonic time of the last failure
};

}  // namespace buttress
