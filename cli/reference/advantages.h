// Reports of an estimator's results, for `buttress advantages`.
#pragma once

#include <string>

#include "cli/reference/group_file.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// One JSON object per group, a line each: {"id", "advantages", "collapse", "near_collapse",
// "virtual": {"injected", "weight", "samples"}}, and "entropy_scale" where the estimator looks at
// tokens; then {"summary": {...}} with the batch's counts, rates and gate.
std::string AdvantagesJson(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options);

// Text for a terminal: a table with one row per group, then the snapshot in three sentences.
std::string AdvantagesText(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options);

// Name, paper and formula of every estimator, one line each.
std::string EstimatorList();

// The tables of docs/estimators.md.
std::string EstimatorTables();

}  // namespace buttress
