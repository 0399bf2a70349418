// The price of a look-ahead (run.batch.window): groups that waited while younger ones were planned,
// and how much longer their completions are.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/experience/plan.h"
#include "lib/ledger/reader.h"

namespace buttress {

// Of the plans of the newest committed steps.
struct LateGroups {
  std::int64_t steps = 0;
  std::int64_t groups = 0;
  std::int64_t late = 0;  // of them, those that younger groups of earlier plans had passed
  DrawnTotals all, of_late;

  // A line with its line feed; empty where no group was late.
  std::string Text() const;

  nlohmann::ordered_json Json() const;
};

// Reads the last `steps` committed steps.
Result<LateGroups> ReadLateGroups(LedgerReader& ledger, std::uint64_t steps);

}  // namespace buttress
