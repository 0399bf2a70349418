// The facts about a group, from a ledger or from another trainer's dump. A fact that the source
// does not hold is nullopt, empty or unspecified.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/experience/types.h"
#include "lib/explain/text_facts.h"

namespace buttress {

struct CompletionFacts {
  double raw_reward = 0;                    // decides collapse; NaN if unscorable
  double reward = 0;                        // after shaping, as the trainer used it
  Outcome outcome = Outcome::kUnspecified;  // unspecified: the raw reward decides
  std::optional<bool> truncated;            // at the token limit
  std::optional<std::int32_t> tokens;
  std::optional<double> logprob;     // nats of the whole completion under the sampler
  std::optional<bool> states_truth;  // whether a second verifier finds the ground truth in it
  TextFacts text;

  // Returns whether the completion has a reward that counts.
  bool scorable() const { return std::isfinite(raw_reward) && outcome != Outcome::kUnscorable; }
};

// Makes a completion unscorable whose reward or raw reward is beyond kMaxReward. Returns whether it
// did.
bool MaskHugeReward(CompletionFacts& completion);

struct GroupFacts {
  std::int64_t step = 0;
  std::string prompt_id;
  std::string source;
  std::string sampler;                       // worker id; "" if unknown
  std::string where;                         // for example "12.jsonl:33" or "group 512"
  std::optional<std::int64_t> version_step;  // step of the oldest weights that sampled the group
  std::optional<PromptHistory> history;      // as the trainer recorded it before the group
  std::vector<CompletionFacts> completions;

  std::vector<double> raw_rewards() const;
  std::vector<double> rewards() const;
  std::vector<Outcome> outcomes() const;  // empty if one of them is unknown
};

}  // namespace buttress
