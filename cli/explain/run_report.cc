#include "cli/explain/run_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/explain/step_source.h"

namespace buttress {

Result<Report> ReadReport(const std::string& run) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<StepSource> source, OpenSteps(run, {}));
  PostMortem post_mortem({}, nullptr);
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupFacts> groups, source->Next());
    if (groups.empty()) return post_mortem.Finish(source->misjudged_sources());
    BUTTRESS_RETURN_IF_ERROR(post_mortem.Add(groups));
  }
}

Result<std::string> LargestCause(const std::string& run) {
  BUTTRESS_ASSIGN_OR_RETURN(const Report report, ReadReport(run));
  const Tally& all = report.all;
  const auto largest = std::ranges::max_element(all.causes);
  if (*largest == 0) return std::string();
  const CauseInfo& info = InfoOf(static_cast<Cause>(largest - all.causes.begin()));
  return fmt::format("{}, {} of {} groups: {}; {}", info.name, *largest, all.groups, info.meaning,
                     info.fix);
}

}  // namespace buttress
