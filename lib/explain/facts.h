// What is known of a group, wherever it comes from: a ledger or another trainer's dump. What a
// source does not tell stays unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/experience/types.h"
#include "lib/explain/text_facts.h"

namespace buttress {

struct CompletionFacts {
  double raw_reward = 0;                    // decides collapse; not a number: unscorable
  double reward = 0;                        // shaped, what the trainer used
  Outcome outcome = Outcome::kUnspecified;  // unspecified: unknown, judged by the reward
  std::optional<bool> truncated;            // cut at the token limit
  std::optional<std::int32_t> tokens;
  std::optional<double>
      logprob;  // nats of the whole completion, under the distribution that was sampled from
  std::optional<bool> states_truth;  // a second verifier finds the ground truth in it, or does not
  TextFacts text;
};

struct GroupFacts {
  std::int64_t step = 0;
  std::string prompt_id;
  std::string source;
  std::string sampler;                       // worker; empty: unknown
  std::string where;                         // "12.jsonl:33", "group 512"
  std::optional<std::int64_t> version_step;  // of the oldest weights that sampled it
  std::optional<PromptHistory> history;      // as the trainer recorded it before this group
  std::vector<CompletionFacts> completions;

  std::vector<double> raw_rewards() const;
  std::vector<double> rewards() const;
  std::vector<Outcome> outcomes() const;  // empty unless all are known
};

}  // namespace buttress
