// Collapse classes of groups and their counts. ClassifyGroup in lib/rl determines the class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// Whether the raw rewards of a group differ. The numbers equal those of v1::CollapseClass.
enum class CollapseClass : std::uint8_t {
  kMixed,
  kAllCorrect,
  kAllWrong,
  kOtherConstant,
  kUnscorable
};

// Returns "mixed", "all_correct", "all_wrong", "other_constant" or "unscorable": the labels of
// metrics and the columns of steps.jsonl.
std::string_view CollapseClassName(CollapseClass collapse);

// Returns whether all raw rewards of the group are equal.
inline bool IsConstant(CollapseClass collapse) {
  return collapse != CollapseClass::kMixed && collapse != CollapseClass::kUnscorable;
}

// Groups by class. The counts of a union of disjoint sets are the sums of their counts.
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

  // Advantage collapse rate: constant / (constant + mixed), or 0 without such groups.
  double acr() const;

  bool operator==(const CollapseCounts&) const = default;
};

// Steps before a step that SourceCollapse::recent covers.
inline constexpr std::uint64_t kRecentSteps = 16;

// Collapse of the groups of one data source.
struct SourceCollapse {
  std::string source;
  CollapseCounts step;    // of its groups drawn for the step, including replaced ones
  CollapseCounts recent;  // of its groups drawn for the kRecentSteps steps before

  bool operator==(const SourceCollapse&) const = default;
};

// Collapse as every gate of a step reads it.
struct CollapseSnapshot {
  CollapseCounts step;        // of all groups drawn for the step, including replaced ones
  CollapseCounts cumulative;  // of all accepted groups
  double acr_ema = 0;         // of the ACR of earlier steps
  double expected_acr = 0;    // mean of what the prompts' histories predict
  // In the order of the names; the counts of the step add up to `step`. Empty where sources are not
  // known.
  std::vector<SourceCollapse> sources = {};

  bool operator==(const CollapseSnapshot&) const = default;
};

}  // namespace buttress
