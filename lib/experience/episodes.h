// Which completions of a group are episodes. An episode of run.env is one completion, its root, or
// several that stand side by side: the root, whose parent is -1, and behind it the branches that
// leave its conversation. A branch repeats the verdict of its root, so that statistics of rewards
// count roots. Elsewhere each completion is a root.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <vector>

#include "lib/experience/group_head.h"

namespace buttress {

template <std::integral Index>
bool IsRoot(const v1::GroupHead& head, Index i) {
  return head.parents().empty() || head.parents(static_cast<int>(i)) < 0;
}

// Returns the number of episodes.
inline int Episodes(const v1::GroupHead& head) {
  if (head.parents().empty()) return Completions(head);
  return static_cast<int>(std::ranges::count(head.parents(), -1));
}

// Returns the completions of each episode: episode e has those from [e] up to [e + 1].
inline std::vector<std::int32_t> EpisodeOffsets(const v1::GroupHead& head) {
  std::vector<std::int32_t> offsets;
  for (int i = 0; i < Completions(head); ++i) {
    if (IsRoot(head, i)) offsets.push_back(i);
  }
  offsets.push_back(Completions(head));
  return offsets;
}

// The raw rewards and outcomes of the episodes.
struct Verdicts {
  std::vector<double> raw_rewards;
  std::vector<Outcome> outcomes;
};

inline Verdicts VerdictsOf(const v1::GroupHead& head) {
  Verdicts verdicts;
  for (int i = 0; i < Completions(head); ++i) {
    if (!IsRoot(head, i)) continue;
    verdicts.raw_rewards.push_back(head.raw_rewards(i));
    verdicts.outcomes.push_back(OutcomeOf(head, i));
  }
  return verdicts;
}

}  // namespace buttress
