// What an estimator did with a batch of groups, for `buttress advantages`.
#pragma once

#include <string>

#include "cli/group_file.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// One JSON object a group, a line each: {"id", "advantages", "collapse", "near_collapse",
// "virtual": {"injected", "weight", "samples"}}, and "entropy_scale" where the estimator looks at
// tokens; then {"summary": {...}} with the batch's counts, rates and gate.
std::string AdvantagesJson(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options);

// The same for people: a table with one row a group, then the snapshot in three sentences.
std::string AdvantagesText(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options);

// Every estimator: name, formula, paper; one line each.
std::string EstimatorList();

// The tables of docs/estimators.md.
std::string EstimatorTables();

}  // namespace buttress
