// What of a plan is trained and what an estimator sees of it, with masks and penalties applied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/collapse.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/assignment.h"
#include "lib/rl/credit.h"

namespace buttress {

// The plan with masks and penalties applied. Masked groups and their completions are unscorable;
// lengths are 0 if unscorable, masked or filtered.
struct TrainedRows {
  PlanEpisodes episodes;
  CreditUnits units;
  AdvantageInput input;               // of the units
  std::vector<double> rewards;        // [E] after shaping
  std::vector<std::int32_t> lengths;  // [N] trained tokens
  std::vector<bool> masked;           // [K]
  CollapseCounts planned;             // of the plan's groups
  std::int64_t overlong_filtered = 0;

  // Whether an advantage of the row is not 0.
  bool has_gradient(const AdvantageOutput& advantages, std::size_t row) const {
    bool any = false;
    for (auto u = units.begin(episodes, row); u < units.end(episodes, row); ++u)
      any = any || advantages.has_gradient(ToIndex(u));
    return any;
  }
};

// Applies the masks and penalties of the options to the plan. `kl_penalties`, [N] or empty, are
// subtracted from the rewards. Pure. kInvalidArgument for turns that the plan does not have.
Result<TrainedRows> ApplyMasks(const Plan& plan, std::span<const double> kl_penalties,
                               const AssignmentOptions& options);

}  // namespace buttress
