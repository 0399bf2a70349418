// Groups of rewards from a JSONL file, one group a line, as a batch for estimators: {"id": "q7",
//   "rewards": [1, 0, null, 1], "lengths": [12, 40, 3, 9], "outcomes": ["correct", "wrong",
//   "unscorable", "correct"],
//    "components": [[1, 0.2], [0, 0.9], [0, 0], [1, 0.1]], "history": {"correct": 3, "scored": 8}}
// Only "rewards" must be there; null is an unscorable completion. Without an id a group has its
// line number.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Fields as in AdvantageInput; K groups, N completions.
struct GroupBatch {
  std::vector<nlohmann::json> ids;    // [K] string or number
  std::vector<std::int64_t> lines;    // [K] of the file
  std::vector<double> rewards;        // [N] not a number: unscorable
  std::vector<Outcome> outcomes;      // [N], or empty
  std::vector<double> components;     // [N, C], or empty
  std::vector<std::int32_t> lengths;  // [N] 1 where the file has none
  std::vector<std::int32_t> group_offsets = {0};
  std::vector<PromptHistory> history;
  bool has_lengths = true;          // every group has them
  std::vector<std::string> unread;  // fields that no one reads, each once

  // Views this batch; the collapse snapshot is that of a batch that stands alone.
  AdvantageInput Input() const;
};

// `name` stands in messages. kInvalidArgument with every error, a line each: "g.jsonl:3: rewards[2]
// = \"x\"; expected a number or null". Blank lines are passed over. outcomes and components must
// stand in all groups or in none.
Result<GroupBatch> ParseGroups(std::string_view text, const std::string& name);

// One group, from its parsed line; messages are without file and line.
Result<GroupBatch> ParseGroup(const nlohmann::json& group);

}  // namespace buttress
