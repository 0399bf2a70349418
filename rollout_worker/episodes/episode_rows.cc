#include "rollout_worker/episodes/episode_rows.h"

#include <algorithm>

#include "lib/base/text/reward_bounds.h"
#include "lib/experience/episodes.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

using ScoredEpisodes = std::span<const std::optional<ScoredCompletion>>;

constexpr const char* kNoCommonPrompt =
    "the conversations of the group do not begin with the same token; expected one at least, as "
    "chat templates give it";
constexpr const char* kNoAnswer = "the episode ended before the policy was asked";

std::span<const EpisodeBranch> BranchesOf(const ScoredCompletion& scored) {
  if (scored.sample.episode == nullptr) return {};
  return scored.sample.episode->branches;
}

// Returns the tokens that all branches begin with, in front of any turn.
std::span<const std::int32_t> CommonTokens(ScoredEpisodes episodes) {
  std::optional<std::span<const std::int32_t>> common;
  for (const auto& scored : episodes) {
    for (const EpisodeBranch& branch : BranchesOf(*scored)) {
      const auto before =
          std::span(branch.token_ids).first(static_cast<std::size_t>(branch.turns.front().begin));
      if (!common) common = before;
      const auto differ = std::ranges::mismatch(*common, before).in1;
      common = common->first(static_cast<std::size_t>(differ - common->begin()));
    }
  }
  return common.value_or(std::span<const std::int32_t>());
}

// Returns the segments of a branch behind `prompt` tokens, each version once in a row.
std::vector<Segment> SegmentsBehind(std::int32_t prompt, const EpisodeBranch& branch) {
  std::vector<Segment> segments;
  for (const Segment& segment : branch.segments) {
    if (!segments.empty() && segments.back().version == segment.version) continue;
    const std::int32_t first = segments.empty() ? 0 : segment.first_token - prompt;
    segments.push_back({first, segment.version});
  }
  return segments;
}

SampledRow RowOf(const EpisodeBranch& branch, std::size_t prompt) {
  SampledRow row;
  row.token_ids = std::span(branch.token_ids).subspan(prompt);
  row.logprobs.resize(row.token_ids.size());
  row.finish_reason = branch.finish_reason;
  const auto shift = static_cast<std::int32_t>(prompt);
  row.segments = SegmentsBehind(shift, branch);
  row.turns = branch.turns;
  for (EpisodeTurn& turn : row.turns) {
    std::copy(branch.logprobs.begin() + turn.begin, branch.logprobs.begin() + turn.end,
              row.logprobs.begin() + turn.begin - shift);
    turn.begin -= shift;
    turn.end -= shift;
  }
  return row;
}

SampledRow RowWithoutTokens(const char* failure) {
  SampledRow row;
  row.failure = failure;
  row.finish_reason = FinishReason::kError;
  return row;
}

// Returns what the turns of an episode were worth; zeros if it is unscorable.
std::vector<double> TurnRewards(std::span<const SampledRow> branches, double raw_reward) {
  std::vector<double> rewards;
  for (const SampledRow& row : branches) {
    for (const EpisodeTurn& turn : row.turns)
      rewards.push_back(branches[0].scorable() ? turn.reward : 0);
  }
  if (rewards.empty()) return rewards;
  rewards.back() = raw_reward;
  for (std::size_t t = 0; t + 1 < rewards.size(); ++t) rewards.back() -= rewards[t];
  return rewards;
}

std::span<const std::int32_t> AnswerOf(const SampledRow& row, std::size_t turn) {
  const EpisodeTurn& at = row.turns[turn];
  return row.token_ids.subspan(static_cast<std::size_t>(at.begin),
                               static_cast<std::size_t>(at.end - at.begin));
}

// Returns how many answers are equal to an earlier one.
std::int32_t RepeatedAnswers(const SampledRow& row) {
  std::vector<std::span<const std::int32_t>> answers;
  for (std::size_t t = 0; t < row.turns.size(); ++t) answers.push_back(AnswerOf(row, t));
  std::ranges::sort(answers, std::ranges::lexicographical_compare);
  const auto repeated = std::ranges::unique(answers, std::ranges::equal);
  return static_cast<std::int32_t>(repeated.size());
}

void AppendToolCounts(const SampledRow& row, v1::GroupHead& head) {
  std::int32_t calls = 0, failed = 0;
  for (const EpisodeTurn& turn : row.turns) {
    calls += static_cast<std::int32_t>(turn.tools.size());
    failed += turn.failed_tools;
  }
  head.add_tool_calls(calls);
  head.add_failed_tool_calls(failed);
  head.add_repeated_answers(RepeatedAnswers(row));
}

void AppendTurn(const EpisodeTurn& turn, int completion, v1::Group& group) {
  v1::Turn& added = *group.add_turns();
  added.set_completion(completion);
  added.set_begin(turn.begin);
  added.set_end(turn.end);
  added.set_waited_ms(turn.waited_ms);
  added.set_sampled_ms(turn.sampled_ms);
  for (const std::string& tool : turn.tools)
    added.add_tools(std::string(FirstBytes(tool, kMaxTermBytes)));
  added.set_failed_tools(turn.failed_tools);
}

}  // namespace

std::vector<SampledRow> EpisodeRows(ScoredEpisodes episodes, std::vector<std::int32_t>& prompt) {
  const std::span<const std::int32_t> common = CommonTokens(episodes);
  const bool asked = std::ranges::any_of(
      episodes, [](const auto& scored) { return !BranchesOf(*scored).empty(); });
  if (!common.empty()) prompt.assign(common.begin(), common.end());
  std::vector<SampledRow> rows;
  for (const auto& scored : episodes) {
    const auto first = static_cast<std::int32_t>(rows.size());
    if (common.empty() || BranchesOf(*scored).empty()) {
      const char* const failure = asked && common.empty() ? kNoCommonPrompt : kNoAnswer;
      rows.push_back(RowWithoutTokens(failure));
    } else {
      for (const EpisodeBranch& branch : BranchesOf(*scored)) {
        SampledRow& row = rows.emplace_back(RowOf(branch, common.size()));
        if (branch.parent >= 0) row.parent = first + branch.parent;
      }
    }
    for (auto i = static_cast<std::size_t>(first); i < rows.size(); ++i) rows[i].scored = &*scored;
  }
  return rows;
}

void AppendEpisodes(std::span<const SampledRow> rows, v1::Group& group) {
  v1::GroupHead& head = *group.mutable_head();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SampledRow& row = rows[i];
    head.add_parents(row.parent);
    head.add_turns(static_cast<std::int32_t>(row.turns.size()));
    const Episode* const episode = row.scored->sample.episode.get();
    head.add_episode_ends(episode == nullptr ? v1::EPISODE_END_FAILED
                                             : static_cast<v1::EpisodeEnd>(episode->end));
    AppendToolCounts(row, head);
    for (const EpisodeTurn& turn : row.turns) AppendTurn(turn, static_cast<int>(i), group);
  }
  const std::vector<std::int32_t> offsets = EpisodeOffsets(head);
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const auto begin = static_cast<std::size_t>(offsets[e]);
    const auto end = static_cast<std::size_t>(offsets[e + 1]);
    const auto rewards =
        TurnRewards(rows.subspan(begin, end - begin), head.raw_rewards(offsets[e]));
    head.mutable_turn_rewards()->Add(rewards.begin(), rewards.end());
  }
  if (Episodes(head) == Completions(head)) head.clear_parents();
}

}  // namespace buttress
