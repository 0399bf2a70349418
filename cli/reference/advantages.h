// Reports of an estimator's results, for `buttress advantages`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Fields as in AdvantageInput; K groups, N completions.
struct GroupBatch {
  std::vector<nlohmann::json> ids;    // [K] string or number
  std::vector<double> rewards;        // [N] NaN: unscorable
  std::vector<Outcome> outcomes;      // [N], or empty
  std::vector<double> components;     // [N, C], or empty
  std::vector<std::int32_t> lengths;  // [N] 1 where the file has no lengths
  std::vector<std::int32_t> group_offsets = {0};
  std::vector<CollapseClass> classes;  // [K]
  std::vector<PromptHistory> history;
  bool has_lengths = true;          // whether every group has lengths
  std::vector<std::string> unread;  // fields that are not read, each once

  // A view of this batch, with the collapse snapshot of a batch that stands alone.
  AdvantageInput Input() const;
};

// Parses a file whose name in messages is `name`. kInvalidArgument lists every error, a line each:
// "g.jsonl:3: rewards[2] = \"x\"; expected a finite number or null". Blank lines are skipped.
// Outcomes and components belong to all groups or to none.
Result<GroupBatch> ParseGroups(std::string_view text, const std::string& name);

// Reads one group from its parsed line; messages name neither file nor line.
Result<GroupBatch> ParseGroup(const nlohmann::json& group);

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
