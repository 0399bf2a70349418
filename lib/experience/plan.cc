#include "lib/experience/plan.h"

#include <algorithm>

#include "lib/base/report/check.h"
#include "lib/experience/episodes.h"

namespace buttress {

void DrawnTotals::Add(const v1::GroupHead& group) {
  for (std::size_t i = 0; i < CompletionsOf(group); ++i) {
    tokens += SampledLengthsOf(group)[static_cast<int>(i)];
    if (!IsRoot(group, i)) continue;
    ++completions;
    if (!IsScorable(group, i)) continue;
    ++scorable;
    raw_reward += RewardsOf(group)[i];
  }
}

std::vector<std::int32_t> Plan::offsets() const { return OffsetsOf(groups); }

std::vector<std::int32_t> OffsetsOf(std::span<const GroupHeadPtr> groups) {
  std::vector<std::int32_t> offsets = {0};
  for (const GroupHeadPtr& group : groups)
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(CompletionsOf(*group)));
  return offsets;
}

std::vector<std::int32_t> SourceIndices(std::span<const GroupHeadPtr> groups,
                                        std::span<const SourceCollapse> sources) {
  std::vector<std::int32_t> indices;
  if (sources.empty()) return indices;
  for (const GroupHeadPtr& group : groups) {
    const auto source =
        std::ranges::lower_bound(sources, group->source(), {}, &SourceCollapse::source);
    BUTTRESS_CHECK(source != sources.end() && source->source == group->source(),
                   "the snapshot of a step counts the sources of its groups");
    indices.push_back(static_cast<std::int32_t>(source - sources.begin()));
  }
  return indices;
}

}  // namespace buttress
