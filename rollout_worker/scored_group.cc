#include "rollout_worker/scored_group.h"

#include <algorithm>
#include <vector>

#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

using ScoredCompletions = std::span<const std::optional<ScoredCompletion>>;

void AppendCompletion(const ScoredCompletion& scored, v1::Group& group) {
  const auto& [sample, verdict, second_outcome] = scored;
  AppendTokens(group, sample.token_ids, sample.logprobs, sample.finish_reason);
  std::vector<double> components;
  if (verdict.outcome != Outcome::kUnscorable) {
    for (const VerdictPart& part : verdict.parts) components.push_back(part.raw_reward);
  }
  AppendReward(*group.mutable_head(), verdict.outcome, verdict.raw_reward, TotalReward(verdict),
               components);
  group.add_unscorable_reasons(verdict.unscorable_reason);
  group.add_extracted_answers(verdict.given);
  group.add_second_outcomes(static_cast<v1::Outcome>(second_outcome));
}

// Trains only the tokens of completion `i` that are as young as the lease allows.
void MaskOldTokens(const Lease& lease, int i, const EngineResult& sample, v1::Group& group) {
  const auto tokens = static_cast<std::int32_t>(sample.token_ids.size());
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < sample.segments.size(); ++s) {
    if (sample.segments[s].version.step >= lease.min_version.step) break;
    begin = s + 1 < sample.segments.size() ? sample.segments[s + 1].first_token : tokens;
  }
  // A lease continues no completion that is old to its end. One that is nevertheless was sampled by
  // a learner that went back, and the coordinator refuses the group.
  if (begin == 0 || begin == tokens) return;
  v1::TokenSpan& span = *group.add_trained_spans();
  span.set_completion(i);
  span.set_begin(begin);
  span.set_end(tokens);
  v1::GroupHead& head = *group.mutable_head();
  if (head.trained_lengths(i) > 0) head.set_trained_lengths(i, tokens - begin);
}

// Fills the versions, and the segments if there are several.
void AppendVersions(ScoredCompletions completions, v1::Group& group) {
  std::vector<PolicyVersion> versions;
  for (const auto& scored : completions) {
    for (const Segment& segment : scored->sample.segments) versions.push_back(segment.version);
  }
  std::ranges::sort(versions, OlderThan);
  const auto same = std::ranges::unique(versions);
  versions.erase(same.begin(), same.end());
  for (const PolicyVersion& version : versions)
    *group.mutable_head()->add_versions() = ToProto(version);
  if (versions.size() < 2) return;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    for (const Segment& segment : completions[i]->sample.segments) {
      v1::Segment& added = *group.add_segments();
      added.set_completion(static_cast<std::int32_t>(i));
      added.set_first_token(segment.first_token);
      added.set_version(static_cast<std::int32_t>(
          std::ranges::lower_bound(versions, segment.version, OlderThan) - versions.begin()));
    }
  }
}

}  // namespace

v1::Group GroupOf(const Lease& lease, const std::string& worker_id,
                  std::span<const std::optional<ScoredCompletion>> completions, bool mask_old) {
  v1::Group group;
  v1::GroupHead& head = *group.mutable_head();
  head.set_group_id(lease.ref.group_id);
  head.set_prompt_id(lease.prompt_id);
  head.set_source(lease.source);
  head.set_worker_id(worker_id);
  head.set_prompt_tokens(static_cast<std::int32_t>(lease.prompt_token_ids.size()));
  group.mutable_prompt_token_ids()->Add(lease.prompt_token_ids.begin(),
                                        lease.prompt_token_ids.end());
  *group.mutable_sampling() = ToProto(lease.sampling);
  // The parts of all scorable ones are the same.
  const auto scorable = std::ranges::find_if(completions, [](const auto& scored) {
    return scored->verdict.outcome != Outcome::kUnscorable;
  });
  for (const VerdictPart& part :
       scorable == completions.end() ? std::vector<VerdictPart>() : (*scorable)->verdict.parts) {
    head.add_component_names(part.name);
    head.add_component_weights(part.weight);
  }
  for (const auto& scored : completions) {
    AppendCompletion(*scored, group);
    if (mask_old) MaskOldTokens(lease, head.outcomes_size() - 1, scored->sample, group);
  }
  AppendVersions(completions, group);
  const auto is_empty = [](const std::string& text) { return text.empty(); };
  if (std::ranges::all_of(group.unscorable_reasons(), is_empty)) group.clear_unscorable_reasons();
  if (std::ranges::all_of(group.extracted_answers(), is_empty)) group.clear_extracted_answers();
  if (std::ranges::all_of(group.second_outcomes(), [](int outcome) { return outcome == 0; }))
    group.clear_second_outcomes();
  return group;
}

}  // namespace buttress
