// The columns of a plan, from the ledger's rows of its groups.
#pragma once

#include <span>

#include "lib/experience/plan.h"
#include "lib/ledger/rows.h"

namespace buttress {

// Returns the plan of `row`, whose `groups` are given in its order. Pure. REQUIRES: the snapshot of
// the row counts their sources, or none.
Plan MakePlan(const PlanRow& row, std::span<const AcceptedRow* const> groups);

// Adds the completions of a group that was drawn for a step.
void AddDrawn(const AcceptedRow& group, DrawnTotals& drawn);

}  // namespace buttress
