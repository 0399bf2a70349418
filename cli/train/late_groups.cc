#include "cli/train/late_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace buttress {
namespace {

double MeanLength(const DrawnTotals& totals) {
  if (totals.completions == 0) return 0;
  return static_cast<double>(totals.tokens) / static_cast<double>(totals.completions);
}

}  // namespace

std::string LateGroups::Text() const {
  if (late == 0) return "";
  return fmt::format(
      "late groups: younger ones had passed {} of the {} of the newest {} steps; {:.1f} tokens a "
      "completion, all have {:.1f}\n",
      late, groups, steps, MeanLength(of_late), MeanLength(all));
}

nlohmann::ordered_json LateGroups::Json() const {
  return {{"steps", steps},
          {"groups", groups},
          {"late", late},
          {"length_mean", MeanLength(all)},
          {"late_length_mean", MeanLength(of_late)}};
}

Result<LateGroups> ReadLateGroups(LedgerReader& ledger, std::uint64_t steps) {
  LateGroups late;
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, ledger.Run());
  const std::uint64_t newest = run ? run->committed_step : 0;
  for (std::uint64_t step = newest - std::min(newest, steps) + 1; step <= newest; ++step) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> drawn, ledger.DrawnFor(step));
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, ledger.GroupsById(drawn));
    ++late.steps;
    for (const GroupRecord& record : records) {
      // Those that were drawn and replaced are not in the plan.
      if (!record.accepted || record.group.state == GroupState::kDropped) continue;
      ++late.groups;
      late.all.Add(*record.accepted->head);
      if (record.group.passed == 0) continue;
      ++late.late;
      late.of_late.Add(*record.accepted->head);
    }
  }
  return late;
}

}  // namespace buttress
