#include "lib/weights/source_order.h"

#include <algorithm>

namespace buttress {

std::vector<std::string> SourceOrder::Order(const std::vector<std::string>& sources,
                                            std::int64_t now_ms) {
  std::erase_if(failed_ms_, [&](const auto& entry) { return now_ms - entry.second >= kAvoidMs; });
  if (sources.empty()) return {};
  std::vector<std::string> order(sources.begin() + 1, sources.end());
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(random_.Below(static_cast<std::uint64_t>(i)))]);
  }
  order.push_back(sources.front());
  std::stable_partition(order.begin(), order.end(),
                        [this](const std::string& source) { return !failed_ms_.contains(source); });
  return order;
}

}  // namespace buttress
