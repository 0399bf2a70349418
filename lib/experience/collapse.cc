#include "lib/experience/collapse.h"

namespace buttress {

std::string_view CollapseClassName(CollapseClass collapse) {
  switch (collapse) {
    case CollapseClass::kMixed:
      return "mixed";
    case CollapseClass::kAllCorrect:
      return "all_correct";
    case CollapseClass::kAllWrong:
      return "all_wrong";
    case CollapseClass::kOtherConstant:
      return "other_constant";
    case CollapseClass::kUnscorable:
      break;
  }
  return "unscorable";
}

void CollapseCounts::Add(CollapseClass collapse) {
  ++groups;
  switch (collapse) {
    case CollapseClass::kMixed:
      ++mixed;
      break;
    case CollapseClass::kAllCorrect:
      ++all_correct;
      break;
    case CollapseClass::kAllWrong:
      ++all_wrong;
      break;
    case CollapseClass::kOtherConstant:
      ++other_constant;
      break;
    case CollapseClass::kUnscorable:
      ++unscorable;
      break;
  }
}

void CollapseCounts::Add(const CollapseCounts& other) {
  groups += other.groups;
  all_correct += other.all_correct;
  all_wrong += other.all_wrong;
  other_constant += other.other_constant;
  mixed += other.mixed;
  unscorable += other.unscorable;
}

double CollapseCounts::acr() const {
  const std::int64_t classed = constant() + mixed;
  return classed == 0 ? 0.0 : static_cast<double>(constant()) / static_cast<double>(classed);
}

}  // namespace buttress
