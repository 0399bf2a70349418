// Deletes payloads that training needs no more.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

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
