#include "rollout_worker/scored_group.h"

#include <algorithm>
#include <vector>

#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "rollout_worker/episodes/episode_rows.h"

namespace buttress {
namespace {

using ScoredCompletions = std::span<const std::optional<ScoredCompletion>>;

void AppendVerdict(const SampledRow& row, v1::Group& group) {
  const Verdict& verdict = row.scored->verdict;
  const Outcome outcome = row.scorable() ? verdict.outcome : Outcome::kUnscorable;
  std::vector<double> components;
  if (row.scorable()) {
    for (const VerdictPart& part : verdict.parts) components.push_back(part.raw_reward);
  }
  AppendReward(*group.mutable_head(), outcome, verdict.raw_reward, TotalReward(verdict),
               components);
  const bool judged = verdict.outcome != Outcome::kUnscorable;
  group.add_unscorable_reasons(judged ? row.failure : verdict.unscorable_reason);
  group.add_extracted_answers(verdict.given);
  group.add_second_outcomes(static_cast<v1::Outcome>(row.scored->second_outcome));
}

// Returns the index of the first token that is as young as the lease allows; 0 if there is none. A
// lease continues no completion that is old to its end. One that is nevertheless was sampled by a
// learner that went back, and the coordinator refuses the group.
std::int32_t FirstYoungToken(const Lease& lease, const SampledRow& row) {
  for (const Segment& segment : row.segments) {
    if (segment.version.step >= lease.min_version.step) return segment.first_token;
  }
  return 0;
}

// Names what is trained of completion `i`, unless that is all of it.
void AppendSpans(const SampledRow& row, int i, std::int32_t first_token, v1::Group& group) {
  std::vector<TokenSpan> spans = {{0, row.tokens()}};
  if (!row.turns.empty()) spans.clear();
  for (const EpisodeTurn& turn : row.turns) spans.push_back({turn.begin, turn.end});
  if (spans.back().end <= first_token) first_token = 0;
  std::int32_t trained = 0;
  for (TokenSpan& span : spans) {
    span.begin = std::min(std::max(span.begin, first_token), span.end);
    trained += span.end - span.begin;
  }
  if (trained == row.tokens() && spans.size() == 1) return;
  for (const TokenSpan& tokens : spans) {
    if (tokens.begin == tokens.end) continue;
    v1::TokenSpan& span = *group.add_trained_spans();
    span.set_completion(i);
    span.set_begin(tokens.begin);
    span.set_end(tokens.end);
  }
  v1::GroupHead& head = *group.mutable_head();
  if (IsScorable(head, i)) head.set_trained_lengths(i, trained);
}

void AppendRow(const Lease& lease, const SampledRow& row, bool mask_old, v1::Group& group) {
  AppendTokens(group, row.token_ids, row.logprobs, row.finish_reason);
  AppendVerdict(row, group);
  const int i = group.head().outcomes_size() - 1;
  if (row.tokens() > 0) AppendSpans(row, i, mask_old ? FirstYoungToken(lease, row) : 0, group);
}

// Fills the versions, and the segments if there are several.
void AppendVersions(std::span<const SampledRow> rows, v1::Group& group) {
  std::vector<PolicyVersion> versions;
  for (const SampledRow& row : rows) {
    for (const Segment& segment : row.segments) versions.push_back(segment.version);
  }
  std::ranges::sort(versions, OlderThan);
  const auto same = std::ranges::unique(versions);
  versions.erase(same.begin(), same.end());
  for (const PolicyVersion& version : versions)
    *group.mutable_head()->add_versions() = ToProto(version);
  if (versions.size() < 2) return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Segment& segment : rows[i].segments) {
      v1::Segment& added = *group.add_segments();
      added.set_completion(static_cast<std::int32_t>(i));
      added.set_first_token(segment.first_token);
      added.set_version(static_cast<std::int32_t>(
          std::ranges::lower_bound(versions, segment.version, OlderThan) - versions.begin()));
    }
  }
}

std::vector<SampledRow> RowsOf(ScoredCompletions completions) {
  std::vector<SampledRow> rows;
  for (const auto& scored : completions) {
    const EngineResult& sample = scored->sample;
    rows.push_back({.scored = &*scored,
                    .token_ids = sample.token_ids,
                    .logprobs = sample.logprobs,
                    .segments = sample.segments,
                    .finish_reason = sample.finish_reason});
  }
  return rows;
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
  *group.mutable_sampling() = ToProto(lease.sampling);
  const bool episodes = std::ranges::any_of(
      completions, [](const auto& scored) { return scored->sample.episode != nullptr; });
  std::vector<std::int32_t> prompt = lease.prompt_token_ids;
  const std::vector<SampledRow> rows =
      episodes ? EpisodeRows(completions, prompt) : RowsOf(completions);
  head.set_prompt_tokens(static_cast<std::int32_t>(prompt.size()));
  group.mutable_prompt_token_ids()->Add(prompt.begin(), prompt.end());
  // The parts of all scorable ones are the same.
  const auto scorable = std::ranges::find_if(rows, &SampledRow::scorable);
  for (const VerdictPart& part :
       scorable == rows.end() ? std::vector<VerdictPart>() : scorable->scored->verdict.parts) {
    head.add_component_names(part.name);
    head.add_component_weights(part.weight);
  }
  for (const SampledRow& row : rows) AppendRow(lease, row, mask_old, group);
  AppendVersions(rows, group);
  if (episodes) AppendEpisodes(rows, group);
  const auto is_empty = [](const std::string& text) { return text.empty(); };
  if (std::ranges::all_of(group.unscorable_reasons(), is_empty)) group.clear_unscorable_reasons();
  if (std::ranges::all_of(group.extracted_answers(), is_empty)) group.clear_extracted_answers();
  if (std::ranges::all_of(group.second_outcomes(), [](int outcome) { return outcome == 0; }))
    group.clear_second_outcomes();
  return group;
}

}  // namespace buttress
