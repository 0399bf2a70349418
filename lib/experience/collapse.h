// Classes of groups by whether their rewards differ, and how many groups of each class there are.
// lib/rl/collapse/acr.h classifies.
#pragma once

#include <cstdint>
#include <string_view>

namespace buttress {

enum class CollapseClass : std::uint8_t {
  kMixed,
  kAllCorrect,
  kAllWrong,
  kOtherConstant,
  kUnscorable
};

// "mixed", "all_correct", "all_wrong", "other_constant", "unscorable": labels of metrics, columns
// of steps.jsonl.
std::string_view CollapseClassName(CollapseClass collapse);

// Integer counts; sums of shards are the whole.
struct CollapseCounts {
  std::int64_t groups = 0;
  std::int64_t all_correct = 0;
  std::int64_t all_wrong = 0;
  std::int64_t other_constant = 0;
  std::int64_t mixed = 0;
  std::int64_t unscorable = 0;

  void Add(CollapseClass collapse);
  void Add(const CollapseCounts& other);

  std::int64_t constant() const { return all_correct + all_wrong + other_constant; }

  // constant / (constant + mixed); 0 when there is no such group.
  double acr() const;

  bool operator==(const CollapseCounts&) const = default;
};

// What every gate of a step sees.
struct CollapseSnapshot {
  CollapseCounts step;  // of all groups drawn for it, replaced ones included
  CollapseCounts cumulative;
  double acr_ema = 0;
  double expected_acr = 0;

  bool operator==(const CollapseSnapshot&) const = default;
};

}  // namespace buttress
