// Groups whose payloads, or whose rows in the ledger, are damaged.
#include <fmt/core.h>

#include "coordinator/schedule/scheduler.h"

namespace buttress {

Status Scheduler::GiveUpDamaged(std::uint64_t learner_epoch, std::uint64_t step,
                                std::uint64_t group_id, const std::string& why,
                                LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  const GroupRow* const group = groups_.Find(group_id);
  if (group == nullptr || group->step != step) return OkStatus();
  if (group->state != GroupState::kBatched) return DataLoss(why);
  if (options_.deterministic) {
    return DataLoss(fmt::format(
        "{}; run.deterministic is set: with another group in its place the run could not be "
        "repeated, so that `buttress ledger drop` is refused as well; put the file back from a "
        "copy, or restore a backup",
        why));
  }
  DropDamaged(group_id, why, out);
  return OkStatus();
}

void Scheduler::DropDamaged(std::uint64_t group_id, const std::string& why, LedgerChanges& out) {
  const GroupRow& group = *groups_.Find(group_id);
  if (group.step != 0) {
    plans_.at(group.step).group_ids[group.position] = 0;
    ++missing_;
  }
  out.drops.push_back({group_id, group.step, group.position, 0, why});
  groups_.Drop(group_id, DropReason::kDamaged, out);
}

// A group that is trained is needed again only by a learner that goes back behind it.
Status Scheduler::DropDamagedRows(LedgerChanges& out) {
  const std::string why = "its row in the ledger does not have its checksum";
  for (const GroupState state : {GroupState::kReady, GroupState::kBatched}) {
    for (const std::uint64_t id : groups_.InState(state)) {
      if (!groups_.accepted(id).damaged) continue;
      if (options_.deterministic) {
        return DataLoss(fmt::format(
            "ledger.db is damaged: group {} cannot be read, {}; run.deterministic is set, so that "
            "no other group may take its place: restore a backup",
            id, why));
      }
      DropDamaged(id, why, out);
    }
  }
  return OkStatus();
}

}  // namespace buttress
