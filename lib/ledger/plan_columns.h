// The columns of a plan, from the ledger's rows of its groups.
#pragma once

#include <cstdint>
#include <span>

#include "lib/experience/plan.h"
#include "lib/ledger/rows.h"

namespace buttress {

// Returns the plan of `step` over `groups` in the given order. Pure.
Plan MakePlan(std::uint64_t step, std::span<const AcceptedRow* const> groups,
              const CollapseSnapshot& collapse);

}  // namespace buttress
