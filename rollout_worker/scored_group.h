// Makes the group that a worker submits of its scored completions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "buttress/v1/experience.pb.h"
#include "lib/experience/lease.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {

// Returns the group of the lease with its completions in this order. With `mask_old`, tokens that
// are older than the lease allows are outside of the trained spans. REQUIRES: all are scored.
v1::Group GroupOf(const Lease& lease, const std::string& worker_id,
                  std::span<const std::optional<ScoredCompletion>> completions, bool mask_old);

}  // namespace buttress
