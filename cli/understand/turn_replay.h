// The answers of a run's episodes, sampled once more: each behind the tokens that the ledger has in
// front of it, among them what tools and users said. No tool is called, and no agent is started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/group.h"
#include "lib/experience/types.h"

namespace buttress {

// An answer of the policy, and what it was sampled from.
struct RecordedTurn {
  std::uint64_t group_id = 0;
  int episode = 0;  // of the group
  int turn = 0;     // of the episode
  PolicyVersion version;
  std::vector<std::string> tools;     // that it called
  std::vector<std::int32_t> context;  // the conversation up to it
  std::vector<std::int32_t> answer;
  SamplingParams sampling;  // with the seed of the call; at most as many tokens as the answer has
};

struct RecordedTurns {
  std::vector<RecordedTurn> turns;
  // Those that cannot be repeated:
  std::int64_t in_branches = 0;     // the order of the calls of such an episode is not recorded
  std::int64_t of_several = 0;      // versions, which sampled one answer
  std::int64_t deleted_groups = 0;  // their tokens
};

// Adds the turns of the episodes of a group. REQUIRES: the group has passed CheckGroup.
void AddTurnsOf(const v1::Group& group, RecordedTurns& turns);

struct TurnReplayFlags {
  std::string folder = {};                 // of the run
  std::string model = {};                  // empty: the start model, for the turns that it sampled
  std::optional<std::uint64_t> step = {};  // the groups that were drawn for it; absent: all
  bool json = false;
};

// Samples the turns by `rollout_worker generate`, and prints which are as they were.
Status ReplayTurns(const TurnReplayFlags& flags);

}  // namespace buttress
