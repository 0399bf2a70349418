// What a run with run.env.credit: turn gave its estimator to compare: rewards of turns.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/explain/facts.h"

namespace buttress {

// Counts of episodes whose turns are compared.
struct TurnCredit {
  std::int64_t of_turns = 0;    // episodes of two turns or more
  std::int64_t early = 0;       // of them, those with a reward before the last turn
  std::int64_t branched = 0;    // episodes of two branches or more
  std::int64_t in_several = 0;  // of them, those with rewards in more than one branch

  // Adds the groups of a step; nothing outside of run.env.credit: turn.
  void Add(std::span<const GroupFacts> groups);

  // Says that no turn earns anything on its own, or none of another branch; "" if some do or there
  // are fewer than CauseRules::credit_episodes episodes.
  std::string Advice(std::int64_t least_episodes) const;
};

}  // namespace buttress
