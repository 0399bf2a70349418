// Gives up a group whose payload is damaged for good, while no coordinator does so by itself, and
// deletes payloads that training needs no more.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

struct DropRequest {
  std::string folder;          // of the coordinator
  std::string learner_folder;  // local.out of the learner, or empty for `folder`
  std::uint64_t group_id = 0;
  std::string reason;
};

struct DroppedGroup {
  GroupRow group;        // before the drop
  std::string evidence;  // file with the bytes of its record; empty if there is none
};

// Drops a group that is neither settled nor dropped, durably: it counts once in ACR as before, its
// record is copied to <folder>/damaged, and the coordinator puts the first ready group in its place
// of a plan. A learner that trains is fenced, because the steps after its checkpoint are trained
// again. kFailedPrecondition while a coordinator, `buttress launch` or a checkpoint that is being
// written uses the folder; kInvalidArgument for a group that has ended or that the newest
// checkpoint contains, for a run with run.deterministic, or without a reason.
Result<DroppedGroup> DropGroup(const DropRequest& request);

struct PrunedPayloads {
  std::int64_t segments = 0;
  std::int64_t bytes = 0;
  std::int64_t groups = 0;  // whose tokens are gone
};

// Deletes the segments of <folder>/payloads in which every group is settled or dropped, but never
// the newest. Rows stay. With `dry_run` nothing is deleted. Safe during the run: such a
// segment is needed by no later step.
Result<PrunedPayloads> PrunePayloads(const std::string& folder, bool dry_run);

}  // namespace buttress
