#include "cli/explain/run_report.h"

#include <memory>
#include <vector>

#include "cli/explain/step_source.h"

namespace buttress {

Result<Report> ReadReport(const std::string& run) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<StepSource> source, OpenSteps(run, {}));
  PostMortem post_mortem({}, nullptr);
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupFacts> groups, source->Next());
    if (groups.empty()) return post_mortem.Finish();
    BUTTRESS_RETURN_IF_ERROR(post_mortem.Add(groups));
  }
}

}  // namespace buttress
