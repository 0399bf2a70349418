// Heads of groups for tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/experience/episodes.h"
#include "lib/experience/group_head.h"
#include "lib/ledger/rows.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

// Adds a completion of `tokens` tokens, all of which are trained if it is scorable.
inline void AddToHead(Outcome outcome, double reward, std::int32_t tokens, v1::GroupHead& head) {
  const bool scorable = outcome != Outcome::kUnscorable;
  head.add_outcomes(static_cast<v1::Outcome>(outcome));
  head.add_finish_reasons(v1::FINISH_REASON_STOP);
  head.add_raw_rewards(reward);
  head.add_rewards(reward);
  head.add_lengths(tokens);
  head.add_trained_lengths(scorable ? tokens : 0);
  head.add_logprob_sums(0);
  head.mutable_token_digests()->append(16, 'd');
  const auto [raw_rewards, outcomes] = VerdictsOf(head);
  head.set_collapse(static_cast<v1::CollapseClass>(ClassifyGroup(raw_rewards, outcomes)));
}

// A group of completions of 5 tokens, with a reward of 1 if correct, else 0.
inline v1::GroupHead MakeHead(std::uint64_t id, const std::vector<Outcome>& outcomes,
                              const PolicyVersion& version = {1, 0, ""}) {
  v1::GroupHead head;
  head.set_group_id(id);
  head.set_source("s");
  head.set_prompt_tokens(3);
  v1::PolicyVersion* out = head.add_versions();
  out->set_learner_epoch(version.learner_epoch);
  out->set_step(version.step);
  for (const Outcome outcome : outcomes)
    AddToHead(outcome, outcome == Outcome::kCorrect ? 1 : 0, 5, head);
  return head;
}

inline AcceptedGroup MakeAccepted(v1::GroupHead head) {
  AcceptedGroup group;
  group.lease_epoch = 1;
  group.content_sha256 = std::string(32, static_cast<char>('a' + head.group_id() % 20));
  group.head = std::make_shared<const v1::GroupHead>(std::move(head));
  return group;
}

}  // namespace buttress
