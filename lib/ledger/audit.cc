// AuditLedger: what must hold of every ledger, checked from its rows alone.
#include <map>
#include <string>

#include "lib/ledger/reader.h"

namespace buttress {
namespace {

std::string Text(const CollapseCounts& counts) {
  return std::to_string(counts.groups) + " groups, " + std::to_string(counts.all_correct) +
         " all correct, " + std::to_string(counts.all_wrong) + " all wrong, " +
         std::to_string(counts.other_constant) + " otherwise constant, " +
         std::to_string(counts.mixed) + " mixed, " + std::to_string(counts.unscorable) +
         " unscorable";
}

CollapseClass Classify(const AcceptedRow& accepted) {
  return ClassifyGroup(accepted.raw_rewards(), accepted.outcomes());
}

// What a walk over all groups gathers.
struct Walk {
  LedgerAudit audit;
  std::uint64_t last_id = 0;
  std::map<std::string, CollapseCounts> by_source;
  std::map<std::uint64_t, CollapseCounts> by_step;
  std::map<std::uint64_t, std::vector<std::uint64_t>> ids_by_step;  // by position

  void Violate(const std::string& what) { audit.violations.push_back(what); }

  void Take(const GroupRecord& record) {
    const GroupRow& group = record.group;
    const std::string name = "group " + std::to_string(group.group_id);
    if (group.group_id != last_id + 1)
      Violate("no group " + std::to_string(last_id + 1) + " before " + name);
    last_id = group.group_id;
    ++audit.groups[std::string(GroupStateName(group.state))];
    const bool dropped = group.state == GroupState::kDropped;
    if (dropped) ++audit.dropped[std::string(DropReasonName(group.reason))];
    if (dropped == (group.reason == DropReason::kNone))
      Violate(name + " is dropped without a reason, or has one without being so");
    CheckContent(record, name);
    if (!record.accepted) return;
    const CollapseClass collapse = Classify(*record.accepted);
    if (collapse != record.accepted->collapse)
      Violate(name + " is counted as another collapse class than its outcomes give");
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
    const bool under_way = state == kPending || state == kLeased;
    if ((planned || state == kReady) && !record.accepted) Violate(name + " has no content");
    if (under_way && record.accepted) Violate(name + " was accepted and is still to be sampled");
    if (planned && record.group.step == 0) Violate(name + " is trained without a plan");
    if ((under_way || state == kReady) && record.group.step != 0)
      Violate(name + " has a plan and is still free");
    if (record.group.reason != DropReason::kNoSignal) return;
    if (record.group.step == 0) Violate(name + " was replaced in no step");
    if (!record.accepted || record.accepted->collapse == CollapseClass::kMixed)
      Violate(name + " was replaced although it has a signal");
  }
};

// The counts of a step are those of all groups drawn for it: of the plan, and replaced. The next
// one may have replaced some already.
void CheckPlans(const std::map<std::uint64_t, PlanRow>& plans, Walk& walk) {
  std::uint64_t last_step = 0;
  for (const auto& [step, plan] : plans) {
    const std::string name = "the plan of step " + std::to_string(step);
    if (step != last_step + 1) walk.Violate("no plan before step " + std::to_string(step));
    last_step = step;
    if (plan.group_ids != walk.ids_by_step[step])
      walk.Violate(name + " names other groups than those that name it");
    if (!(plan.collapse.step == walk.by_step[step])) {
      walk.Violate(name + " reports " + Text(plan.collapse.step) + "; the outcomes give " +
                   Text(walk.by_step[step]));
    }
  }
  for (const auto& [step, ids] : walk.ids_by_step) {
    if (!plans.contains(step))
      walk.Violate("groups name step " + std::to_string(step) + ", which has no plan");
  }
  if (!walk.by_step.empty() && walk.by_step.rbegin()->first > last_step + 1) {
    walk.Violate("groups were replaced in step " + std::to_string(walk.by_step.rbegin()->first) +
                 ", before its turn");
  }
}

}  // namespace

Result<LedgerAudit> AuditLedger(LedgerReader& reader) {
  Walk walk;
  BUTTRESS_RETURN_IF_ERROR(
      reader.ForEachGroup([&](const GroupRecord& record) { walk.Take(record); }));
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans, reader.Plans());
  CheckPlans(plans, walk);
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t twice, reader.DrawnAndSkipped());
  if (twice != 0)
    walk.Violate(std::to_string(twice) + " prompts were drawn and passed over in the same pass");

  BUTTRESS_ASSIGN_OR_RETURN(const auto reported, reader.ReportedCollapse());
  for (const auto& [source, counts] : reported) walk.audit.reported.Add(counts);
  for (const auto& [source, counts] : walk.by_source) walk.audit.recounted.Add(counts);
  if (reported != walk.by_source) {
    walk.Violate("the run reports " + Text(walk.audit.reported) + "; the outcomes give " +
                 Text(walk.audit.recounted));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader.Run());
  if (run && run->next_group_id != walk.last_id + 1)
    walk.Violate("the last group given is not there");
  if (run && run->finished) {
    for (const auto& [state, count] : walk.audit.groups) {
      if (state != "settled" && state != "dropped")
        walk.Violate(std::to_string(count) + " groups are " + state + " after the end");
    }
  }
  return walk.audit;
}

}  // namespace buttress
