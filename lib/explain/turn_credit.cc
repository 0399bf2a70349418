#include "lib/explain/turn_credit.h"

#include <fmt/core.h>

namespace buttress {

void TurnCredit::Add(std::span<const GroupFacts> groups) {
  for (const GroupFacts& group : groups) {
    if (!group.turn_credit) continue;
    for (const CompletionFacts& c : group.completions) {
      if (!c.episode || !c.scorable()) continue;
      of_turns += c.episode->turns > 1 ? 1 : 0;
      early += c.episode->rewarded_early ? 1 : 0;
      branched += c.episode->branches > 1 ? 1 : 0;
      in_several += c.episode->rewarded_branches > 1 ? 1 : 0;
    }
  }
}

std::string TurnCredit::Advice(std::int64_t least_episodes) const {
  if (of_turns >= least_episodes && early == 0) {
    return fmt::format(
        "run.env.credit: turn compares what turns earn, and none of {} episodes of two turns or "
        "more has a reward before its last turn (p below {:.2g} %): reward turns where they are "
        "taken (`turn_reward`), or set run.env.credit: episode.",
        of_turns, 300 / static_cast<double>(of_turns));
  }
  if (branched >= least_episodes && in_several == 0) {
    return fmt::format(
        "run.env.credit: turn compares what turns earn, and in none of {} episodes with branches "
        "has more than one branch a reward (p below {:.2g} %): reward the turns of sub-agents and "
        "summaries as well, or set run.env.credit: episode.",
        branched, 300 / static_cast<double>(branched));
  }
  return "";
}

}  // namespace buttress
