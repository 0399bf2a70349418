// Collapse classes of groups and their counts. ClassifyGroup in lib/rl determines the class.
#pragma once

#include <cstddef>
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

  inline void Add(CollapseClass collapse);
  inline void Add(const CollapseCounts& other);

  std::int64_t constant() const { return all_correct + all_wrong + other_constant; }

  // Advantage collapse rate: constant / (constant + mixed), or 0 without such groups.
  double acr() const {
    const std::int64_t classed = constant() + mixed;
    return classed == 0 ? 0.0 : static_cast<double>(constant()) / static_cast<double>(classed);
  }

  bool operator==(const CollapseCounts&) const = default;
};

// The label and the count of a class.
struct CollapseClassRow {
  std::string_view name;
  std::int64_t CollapseCounts::*count;
};

// By CollapseClass.
inline constexpr CollapseClassRow kCollapseClasses[] = {
    {"mixed", &CollapseCounts::mixed},
    {"all_correct", &CollapseCounts::all_correct},
    {"all_wrong", &CollapseCounts::all_wrong},
    {"other_constant", &CollapseCounts::other_constant},
    {"unscorable", &CollapseCounts::unscorable}};

// Returns "mixed", "all_correct", "all_wrong", "other_constant" or "unscorable": the labels of
// metrics and the columns of steps.jsonl.
inline std::string_view CollapseClassName(CollapseClass collapse) {
  return kCollapseClasses[static_cast<std::size_t>(collapse)].name;
}

void CollapseCounts::Add(CollapseClass collapse) {
  ++groups;
  ++(this->*kCollapseClasses[static_cast<std::size_t>(collapse)].count);
}

void CollapseCounts::Add(const CollapseCounts& other) {
  groups += other.groups;
  for (const CollapseClassRow& row : kCollapseClasses) this->*row.count += other.*row.count;
}

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
