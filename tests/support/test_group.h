// Groups for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {

// Returns a group without completions that was sampled by one version.
inline v1::Group NewGroup(std::uint64_t id, const std::vector<std::int32_t>& prompt = {1, 2},
                          const PolicyVersion& version = {1, 0, ""}) {
  v1::Group group;
  v1::GroupHead& head = *group.mutable_head();
  head.set_group_id(id);
  head.set_prompt_id("p" + std::to_string(id));
  head.set_source("s");
  head.set_worker_id("w");
  head.set_prompt_tokens(static_cast<std::int32_t>(prompt.size()));
  *head.add_versions() = ToProto(version);
  group.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
  *group.mutable_sampling() = ToProto(SamplingParams());
  return group;
}

// Appends a completion whose raw and shaped rewards are `reward`, with log-probs of -1.
inline void AppendCompletion(v1::Group& group, const std::vector<std::int32_t>& token_ids,
                             Outcome outcome, double reward,
                             FinishReason finish_reason = FinishReason::kStop) {
  AppendTokens(group, token_ids, std::vector<float>(token_ids.size(), -1.0F), finish_reason);
  AppendReward(*group.mutable_head(), outcome, reward, reward);
}

// Restricts what is trained of completion `i`, to which it adds a span.
inline void AddTrainedSpan(v1::Group& group, std::int32_t i, TokenSpan tokens) {
  v1::TokenSpan& span = *group.add_trained_spans();
  span.set_completion(i);
  span.set_begin(tokens.begin);
  span.set_end(tokens.end);
  std::int32_t trained = 0;
  for (const TokenSpan& one : TrainedSpansOf(group, i)) trained += one.end - one.begin;
  group.mutable_head()->set_trained_lengths(i, IsScorable(group.head(), i) ? trained : 0);
}

inline void AddSegment(v1::Group& group, std::int32_t i, std::int32_t first_token,
                       std::int32_t version) {
  v1::Segment& segment = *group.add_segments();
  segment.set_completion(i);
  segment.set_first_token(first_token);
  segment.set_version(version);
}

}  // namespace buttress
