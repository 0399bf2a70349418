// Checks the invariants of a ledger from its rows alone.
#include <fmt/core.h>

#include <map>
#include <string>
#include <utility>

#include "lib/ledger/reader.h"

namespace buttress {
namespace {

std::string Text(const CollapseCounts& counts) {
  return fmt::format(
      "{} groups, {} all correct, {} all wrong, {} otherwise constant, {} mixed, {} unscorable",
      counts.groups, counts.all_correct, counts.all_wrong, counts.other_constant, counts.mixed,
      counts.unscorable);
}

CollapseClass Classify(const AcceptedRow& accepted) {
  return ClassifyGroup(accepted.raw_rewards(), accepted.outcomes());
}

// The results of a walk over all groups.
struct Walk {
  LedgerAudit audit;
  std::uint64_t last_id = 0;
  std::map<std::string, CollapseCounts> by_source;
  std::map<std::uint64_t, CollapseCounts> by_step;
  std::map<std::uint64_t, std::vector<std::uint64_t>> ids_by_step;  // by position

  void AddViolation(std::string what) { audit.violations.push_back(std::move(what)); }

  void Visit(const GroupRecord& record) {
    const GroupRow& group = record.group;
    const std::string name = "group " + std::to_string(group.group_id);
    if (group.group_id != last_id + 1)
      AddViolation(fmt::format("no group {} before {}", last_id + 1, name));
    last_id = group.group_id;
    ++audit.groups[std::string(GroupStateName(group.state))];
    const bool dropped = group.state == GroupState::kDropped;
    if (dropped) ++audit.dropped[std::string(DropReasonName(group.reason))];
    if (dropped == (group.reason == DropReason::kNone))
      AddViolation(name + " is dropped without a reason, or has a reason and is not dropped");
    CheckContent(record, name);
    if (!record.accepted) return;
    const CollapseClass collapse = Classify(*record.accepted);
    if (collapse != record.accepted->collapse)
      AddViolation(name + " is counted as another collapse class than its outcomes give");
    by_source[group.prompt.source].Add(collapse);
    if (group.step == 0) return;
    by_step[group.step].Add(collapse);
    if (group.reason == DropReason::kNoSignal) return;
    std::vector<std::uint64_t>& ids = ids_by_step[group.step];
    if (ids.size() <= group.position) ids.resize(group.position + 1);
    ids[group.position] = group.group_id;
  }

  void CheckContent(const GroupRecord& record, const std::string& name) {
    using enum GroupState;
    const GroupState state = record.group.state;
    const bool planned = state == kBatched || state == kTrained || state == kSettled;
    const bool unsampled = state == kPending || state == kLeased;
    if ((planned || state == kReady) && !record.accepted) AddViolation(name + " has no content");
    if (unsampled && record.accepted) AddViolation(name + " was accepted and is not sampled yet");
    if (planned && record.group.step == 0) AddViolation(name + " is trained without a plan");
    if ((unsampled || state == kReady) && record.group.step != 0)
      AddViolation(name + " has a plan but its state has none");
    if (record.group.reason != DropReason::kNoSignal) return;
    if (record.group.step == 0) AddViolation(name + " was replaced in no step");
    if (!record.accepted || record.accepted->collapse == CollapseClass::kMixed)
      AddViolation(name + " was replaced although it has a signal");
  }
};

// A step counts all groups drawn for it: those of its plan and those that they replaced. The step
// after the last plan may already have replaced groups.
void CheckPlans(const std::map<std::uint64_t, PlanRow>& plans, Walk& walk) {
  std::uint64_t last_step = 0;
  for (const auto& [step, plan] : plans) {
    const std::string name = "the plan of step " + std::to_string(step);
    if (step != last_step + 1) walk.AddViolation("no plan before step " + std::to_string(step));
    last_step = step;
    if (plan.group_ids != walk.ids_by_step[step])
      walk.AddViolation(name + " names other groups than those that name it");
    if (!(plan.collapse.step == walk.by_step[step])) {
      walk.AddViolation(fmt::format("{} reports {}; the outcomes give {}", name,
                                    Text(plan.collapse.step), Text(walk.by_step[step])));
    }
  }
  for (const auto& [step, ids] : walk.ids_by_step) {
    if (!plans.contains(step))
      walk.AddViolation(fmt::format("groups name step {}, which has no plan", step));
  }
  if (!walk.by_step.empty() && walk.by_step.rbegin()->first > last_step + 1) {
    walk.AddViolation(fmt::format("groups were replaced in step {}, which is not the next step",
                                  walk.by_step.rbegin()->first));
  }
}

}  // namespace

Result<LedgerAudit> AuditLedger(LedgerReader& reader) {
  Walk walk;
  BUTTRESS_RETURN_IF_ERROR(
      reader.ForEachGroup([&](const GroupRecord& record) { walk.Visit(record); }));
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans, reader.Plans());
  CheckPlans(plans, walk);
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t twice, reader.DrawnAndSkipped());
  if (twice != 0)
    walk.AddViolation(fmt::format("{} prompts were drawn and passed over in the same pass", twice));

  BUTTRESS_ASSIGN_OR_RETURN(const auto reported, reader.ReportedCollapse());
  for (const auto& [source, counts] : reported) walk.audit.reported.Add(counts);
  for (const auto& [source, counts] : walk.by_source) walk.audit.recounted.Add(counts);
  if (reported != walk.by_source) {
    walk.AddViolation(fmt::format("the run reports {}; the outcomes give {}",
                                  Text(walk.audit.reported), Text(walk.audit.recounted)));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader.Run());
  if (run && run->next_group_id != walk.last_id + 1)
    walk.AddViolation("the last admitted group is missing");
  if (run && run->finished) {
    for (const auto& [state, count] : walk.audit.groups) {
      if (state != "settled" && state != "dropped")
        walk.AddViolation(fmt::format("{} groups are {} after the end", count, state));
    }
  }
  return walk.audit;
}

}  // namespace buttress
