#include "lib/experience/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace buttress {
namespace {

// The groups of the plan are among those that the snapshot counts by source.
Status CheckSources(const Plan& plan) {
  CollapseCounts sum;
  const std::vector<SourceCollapse>& sources = plan.collapse.sources;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    sum.Add(sources[s].step);
    if (s == 0 || sources[s - 1].source < sources[s].source) continue;
    return InvalidArgument(
        fmt::format("plan: source '{}' follows '{}'; expected each once, in the order of names",
                    sources[s].source, sources[s - 1].source));
  }
  if (!sources.empty() && sum != plan.collapse.step) {
    return InvalidArgument(
        fmt::format("plan: the sources count {} groups, the step {}; expected "
                    "the same counts",
                    sum.groups, plan.collapse.step.groups));
  }
  if (sources.empty()) return OkStatus();
  for (const GroupHeadPtr& group : plan.groups) {
    if (std::ranges::binary_search(sources, group->source(), {}, &SourceCollapse::source)) continue;
    return InvalidArgument(
        fmt::format("plan: group {} has source '{}', which the snapshot does not count",
                    group->group_id(), group->source()));
  }
  return OkStatus();
}

}  // namespace

Status CheckPlan(const Plan& plan) {
  for (const GroupHeadPtr& group : plan.groups) {
    if (Status status = CheckGroupHead(*group); !status.ok())
      return status.Annotate(fmt::format("plan: group {}", group->group_id()));
  }
  return CheckSources(plan);
}

}  // namespace buttress
