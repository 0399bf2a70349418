// How other trainers name the collapse of groups in their logs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace buttress {

enum class MetricUse : std::uint8_t {
  kCollapsed,    // share of groups with equal rewards
  kInformative,  // share of the other groups
  kAllCorrect,   // share of groups with equal rewards, all right
  kAllWrong,     // and all wrong
  kDropped,      // number of groups with equal rewards
};

struct MetricName {
  std::string_view name;  // a metric has this name, or ends in a slash and it
  MetricUse use;
  std::string_view trainer;
  double scale = 1;             // of the value
  std::string_view whole = {};  // the metric to divide by; empty: none
};

// Names for the same use are tried in this order.
std::span<const MetricName> MetricNames();

}  // namespace buttress
