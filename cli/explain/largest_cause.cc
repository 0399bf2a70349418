#include "cli/explain/largest_cause.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/run_report.h"

namespace buttress {

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
