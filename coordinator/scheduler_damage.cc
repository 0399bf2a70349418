// Groups of a plan whose payloads are damaged.
#include <fmt/core.h>

#include "coordinator/scheduler.h"

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
  plans_.at(step).group_ids[group->position] = 0;
  ++missing_;
  out.drops.push_back({group_id, step, group->position, 0, why});
  groups_.Drop(group_id, DropReason::kDamaged, out);
  return OkStatus();
}

}  // namespace buttress
