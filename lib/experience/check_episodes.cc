#include "lib/experience/check_episodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/text/reward_bounds.h"
#include "lib/base/text/unicode.h"
#include "lib/experience/episodes.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

constexpr double kTurnRounding = 1e-9;

Status OfCompletion(int i, const std::string& what) {
  return InvalidArgument(fmt::format("completion {}: {}", i, what));
}

Status CheckParents(const v1::GroupHead& head, const GroupLimits& limits) {
  int root = 0;
  for (int i = 0; i < head.parents_size(); ++i) {
    const std::int32_t parent = head.parents(i);
    if (parent == -1) {
      root = i;
      continue;
    }
    if (parent < root || parent >= i) {
      return OfCompletion(
          i, fmt::format("parent = {}; expected the index of an earlier completion of its episode, "
                         "which is completion {} and those behind it, or -1",
                         parent, root));
    }
    if (i - root >= limits.max_branches) {
      return OfCompletion(root, fmt::format("its episode has more than {} completions; a turn "
                                            "makes one branch at most",
                                            limits.max_branches));
    }
  }
  return OkStatus();
}

// A branch repeats the verdict of its root.
Status CheckBranches(const v1::GroupHead& head) {
  int root = 0;
  for (int i = 0; i < head.parents_size(); ++i) {
    if (IsRoot(head, i)) root = i;
    const bool same =
        head.outcomes(i) == head.outcomes(root) && head.raw_rewards(i) == head.raw_rewards(root) &&
        head.rewards(i) == head.rewards(root) &&
        (head.episode_ends().empty() || head.episode_ends(i) == head.episode_ends(root));
    if (same) continue;
    return OfCompletion(i,
                        fmt::format("outcome {}, raw_reward = {}, reward = {}; expected those "
                                    "and the end of completion {}, whose episode it branches",
                                    head.outcomes(i), head.raw_rewards(i), head.rewards(i), root));
  }
  return OkStatus();
}

Status CheckEnd(const v1::GroupHead& head, int i) {
  const int end = head.episode_ends(i);
  if (!v1::EpisodeEnd_IsValid(end) || end == v1::EPISODE_END_UNSPECIFIED)
    return OfCompletion(i, fmt::format("episode_end = {}; expected why the episode ended", end));
  const bool failed = end == v1::EPISODE_END_TIME || end == v1::EPISODE_END_FAILED;
  if (!failed || !IsScorable(head, i)) return OkStatus();
  return OfCompletion(i, "the episode timed out or failed; expected it to be unscorable");
}

// Groups of earlier versions have no such columns.
Status CheckToolCounts(const v1::GroupHead& head, std::int64_t n) {
  const bool counted = !head.turns().empty() && !head.tool_calls().empty();
  const std::int64_t expected = counted ? n : 0;
  BUTTRESS_RETURN_IF_ERROR(
      CheckSizes({{"tool_calls", head.tool_calls_size(), expected},
                  {"failed_tool_calls", head.failed_tool_calls_size(), expected},
                  {"repeated_answers", head.repeated_answers_size(), expected}}));
  for (int i = 0; i < head.tool_calls_size(); ++i) {
    const std::int32_t calls = head.tool_calls(i), failed = head.failed_tool_calls(i);
    if (failed < 0 || failed > calls)
      return OfCompletion(
          i, fmt::format("{} of {} tool calls failed; expected 0 to all of them", failed, calls));
    const std::int32_t repeated = head.repeated_answers(i);
    if (repeated < 0 || repeated > std::max(0, head.turns(i) - 1))
      return OfCompletion(i, fmt::format("{} repeated answers of {} turns; expected 0 to all but "
                                         "the first",
                                         repeated, head.turns(i)));
  }
  return OkStatus();
}

Status CheckTurnRewards(const v1::GroupHead& head) {
  const std::vector<std::int32_t> offsets = EpisodeOffsets(head);
  int next = 0;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    double sum = 0, size = 0;
    int turns = 0;
    for (int i = offsets[e]; i < offsets[e + 1]; ++i) turns += head.turns(i);
    for (int t = 0; t < turns; ++t, ++next) {
      sum += head.turn_rewards(next);
      size += std::abs(head.turn_rewards(next));
    }
    const double raw_reward = head.raw_rewards(offsets[e]);
    const bool equal = std::abs(sum - raw_reward) <= kTurnRounding * (size + std::abs(raw_reward));
    if (turns == 0 || (equal && size <= kMaxReward * (turns + 1))) continue;
    return OfCompletion(offsets[e], fmt::format("the rewards of the {} turns of its episode add up "
                                                "to {}; expected raw_reward = {}",
                                                turns, sum, raw_reward));
  }
  return OkStatus();
}

Status CheckTurn(const v1::Group& group, int t, int completion, std::int32_t least) {
  const v1::Turn& turn = group.turns(t);
  const bool fits = turn.completion() == completion && least <= turn.begin() &&
                    turn.begin() < turn.end() && turn.end() <= group.head().lengths(completion);
  const bool counts = turn.waited_ms() >= 0 && turn.sampled_ms() >= 0 && turn.failed_tools() >= 0;
  if (!fits || !counts) {
    return InvalidArgument(fmt::format(
        "turns[{}] = [{}, {}) of completion {}, {} ms after the turn before, in {} ms, with {} "
        "failed tools; expected a turn of completion {} of its {} tokens, behind the turn before, "
        "and no negative number",
        t, turn.begin(), turn.end(), turn.completion(), turn.waited_ms(), turn.sampled_ms(),
        turn.failed_tools(), completion, group.head().lengths(completion)));
  }
  for (const std::string& tool : turn.tools()) {
    if (tool.size() <= kMaxTermBytes && !FirstInvalidUtf8(tool)) continue;
    return InvalidArgument(fmt::format(
        "turns[{}]: the name of a tool has {} bytes; expected at most {}, of valid UTF-8", t,
        tool.size(), kMaxTermBytes));
  }
  return OkStatus();
}

// Checks that the head counts the tool calls of the turns of the completion.
Status CheckCounted(const v1::Group& group, int i, std::span<const v1::Turn* const> turns) {
  const v1::GroupHead& head = group.head();
  if (head.tool_calls().empty()) return OkStatus();
  std::int64_t calls = 0, failed = 0;
  for (const v1::Turn* turn : turns) {
    calls += turn->tools_size();
    failed += turn->failed_tools();
  }
  if (head.tool_calls(i) == calls && head.failed_tool_calls(i) == failed) return OkStatus();
  return OfCompletion(
      i, fmt::format("tool_calls = {}, failed_tool_calls = {}; expected {} and {}, as its turns "
                     "have",
                     head.tool_calls(i), head.failed_tool_calls(i), calls, failed));
}

// Checks that what is trained of the completion lies within its turns.
Status CheckTrained(const v1::Group& group, int i, std::span<const TokenSpan> turns) {
  for (const TokenSpan& span : TrainedSpansOf(group, i)) {
    const bool inside = std::ranges::any_of(turns, [&](const TokenSpan& turn) {
      return turn.begin <= span.begin && span.end <= turn.end;
    });
    if (inside) continue;
    return OfCompletion(i, fmt::format("trains the tokens [{}, {}), which are not in one turn; "
                                       "expected trained spans inside of turns",
                                       span.begin, span.end));
  }
  return OkStatus();
}

// The policy has no log-prob of what it did not sample.
Status CheckForeignTokens(const v1::Group& group, int i, std::span<const TokenSpan> turns) {
  const std::span<const float> logprobs = LogprobsOf(group, i);
  auto turn = turns.begin();
  for (std::int32_t t = 0; t < std::ssize(logprobs); ++t) {
    while (turn != turns.end() && turn->end <= t) ++turn;
    const bool sampled = turn != turns.end() && turn->begin <= t;
    const float logprob = logprobs[static_cast<std::size_t>(t)];
    if (sampled || logprob == 0) continue;
    return OfCompletion(i,
                        fmt::format("logprobs[{}] = {} outside of the turns; expected 0, because "
                                    "the policy did not sample the token",
                                    t, logprob));
  }
  return OkStatus();
}

}  // namespace

Status CheckSizes(std::initializer_list<ColumnSize> columns) {
  for (const auto& [name, size, expected] : columns) {
    if (size == expected) continue;
    return InvalidArgument(
        fmt::format("column {} has {} entries; expected {}", name, size, expected));
  }
  return OkStatus();
}

Status CheckEpisodeColumns(const v1::GroupHead& head, const GroupLimits& limits) {
  const std::int64_t n = limits.max_branches == 0 ? 0 : Completions(head);
  const auto n_or_0 = [n](int size) { return size == 0 ? 0 : n; };
  BUTTRESS_RETURN_IF_ERROR(
      CheckSizes({{"parents", head.parents_size(), n_or_0(head.parents_size())},
                  {"turns", head.turns_size(), n_or_0(head.turns_size())},
                  {"episode_ends", head.episode_ends_size(), n_or_0(head.turns_size())}}));
  for (int i = 0; i < head.turns_size(); ++i) {
    if (head.turns(i) >= 0 && head.turns(i) <= head.lengths(i)) continue;
    return OfCompletion(i, fmt::format("{} turns; expected 0 to {}, one for a token at most",
                                       head.turns(i), head.lengths(i)));
  }
  const auto turns = std::reduce(head.turns().begin(), head.turns().end(), std::int64_t{0});
  BUTTRESS_RETURN_IF_ERROR(CheckSizes({{"turn_rewards", head.turn_rewards_size(), turns}}));
  BUTTRESS_RETURN_IF_ERROR(CheckToolCounts(head, n));
  BUTTRESS_RETURN_IF_ERROR(CheckParents(head, limits));
  if (head.parents().empty() || Episodes(head) <= limits.max_completions) return OkStatus();
  return InvalidArgument(
      fmt::format("{} episodes; expected 1 to {}", Episodes(head), limits.max_completions));
}

Status CheckEpisodeVerdicts(const v1::GroupHead& head) {
  BUTTRESS_RETURN_IF_ERROR(CheckBranches(head));
  for (int i = 0; i < head.episode_ends_size(); ++i) BUTTRESS_RETURN_IF_ERROR(CheckEnd(head, i));
  return head.turns().empty() ? OkStatus() : CheckTurnRewards(head);
}

Status CheckTurns(const v1::Group& group) {
  const v1::GroupHead& head = group.head();
  BUTTRESS_RETURN_IF_ERROR(
      CheckSizes({{"turns of the group", group.turns_size(), head.turn_rewards_size()}}));
  int next = 0;
  for (int i = 0; i < head.turns_size(); ++i) {
    std::vector<TokenSpan> turns;
    std::vector<const v1::Turn*> answers;
    for (int t = 0; t < head.turns(i); ++t, ++next) {
      const std::int32_t least = turns.empty() ? 0 : turns.back().end;
      BUTTRESS_RETURN_IF_ERROR(CheckTurn(group, next, i, least));
      turns.push_back({group.turns(next).begin(), group.turns(next).end()});
      answers.push_back(&group.turns(next));
    }
    BUTTRESS_RETURN_IF_ERROR(CheckCounted(group, i, answers));
    BUTTRESS_RETURN_IF_ERROR(CheckTrained(group, i, turns));
    BUTTRESS_RETURN_IF_ERROR(CheckForeignTokens(group, i, turns));
  }
  return OkStatus();
}

}  // namespace buttress
