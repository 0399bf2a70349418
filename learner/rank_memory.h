// The memory of a rank before it takes any. Torch.
#pragma once

#include "learner/rank_device.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/config/run_config.h"

namespace buttress {

// Plans the memory of this rank, logs the plan by its parts, and returns the stage of
// local.learner.zero: for `auto` the lowest that fits every rank, the same on all of them.
// kInvalidArgument on all of them if one fits nowhere, with what to change on that rank. Every rank
// of `control` calls it.
Result<ZeroStage> PlanRankMemory(const RunConfig& config, const RankDevice& own,
                                 Collective& control);

}  // namespace buttress
