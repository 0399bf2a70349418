#include "lib/explain/episode_causes.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>

#include "lib/explain/rates.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

// Sums over the episodes of a group.
struct EpisodeSums {
  std::int64_t calling = 0;  // episodes with a call
  std::int64_t calls = 0, failed = 0, unreadable = 0;
  std::int64_t turns = 0, repeated = 0, may_repeat = 0;
  std::int64_t tokens = 0;
};

EpisodeSums SumsOf(const GroupFacts& group) {
  EpisodeSums sums;
  for (const CompletionFacts& c : group.completions) {
    if (!c.episode) continue;
    sums.calling += c.episode->calls > 0 ? 1 : 0;
    sums.calls += c.episode->calls;
    sums.failed += c.episode->failed_calls;
    sums.turns += c.episode->turns;
    sums.repeated += c.episode->repeated_answers;
    sums.may_repeat += std::max(0, c.episode->turns - 1);
    sums.tokens += c.tokens.value_or(0);
  }
  for (const auto& [tool, failed] : group.failed_by_tool)
    sums.unreadable += tool.empty() ? failed : 0;
  return sums;
}

// Whether more than half are `part` even at the lower end of the 95 % interval.
bool Most(std::int64_t part, std::int64_t whole, const CauseRules& rules) {
  return WilsonInterval(Share(part, whole), static_cast<double>(whole)).low > rules.most_share;
}

// ", 5 of them of python", for the tool with the most failed calls.
std::string WorstTool(const GroupFacts& group) {
  const auto most = std::ranges::max_element(group.failed_by_tool, {},
                                             [](const auto& tool) { return tool.second; });
  if (most == group.failed_by_tool.end()) return "";
  return fmt::format(", {} of them {}", most->second,
                     most->first.empty() ? "in no form that can be read" : "of " + most->first);
}

std::optional<Diagnosis> FailingCalls(const GroupFacts& group, const EpisodeSums& sums,
                                      const CauseRules& rules) {
  const auto n = static_cast<std::int64_t>(group.completions.size());
  if (Share(sums.calling, n) < rules.limit_share || !Most(sums.failed, sums.calls, rules))
    return std::nullopt;
  return Diagnosis{
      2 * sums.unreadable > sums.failed ? Cause::kUnreadableCalls : Cause::kFailingTools,
      fmt::format("{} of {} tool calls failed{}", sums.failed, sums.calls, WorstTool(group))};
}

std::optional<Diagnosis> Loops(const EpisodeSums& sums, const CauseRules& rules) {
  const bool room = sums.tokens >= sums.turns * rules.room_words;
  if (!room || !Most(sums.repeated, sums.may_repeat, rules)) return std::nullopt;
  return Diagnosis{Cause::kLoops,
                   fmt::format("{} of {} answers behind the first of their episode repeat an "
                               "earlier one word for word",
                               sums.repeated, sums.may_repeat)};
}

// Returns a diagnosis if most episodes ended at a limit; it names the setting that ended the most.
std::optional<Diagnosis> AtLimit(const GroupFacts& group, const CauseRules& rules) {
  std::map<std::string, std::int64_t> ended;
  std::int64_t all = 0;
  for (const CompletionFacts& c : group.completions) {
    if (c.limit.empty()) continue;
    ++ended[c.limit];
    ++all;
  }
  const auto n = static_cast<std::int64_t>(group.completions.size());
  if (all == 0 || Share(all, n) < rules.limit_share) return std::nullopt;
  const auto most =
      std::ranges::max_element(ended, {}, [](const auto& limit) { return limit.second; });
  return Diagnosis{Cause::kEpisodeLimit,
                   fmt::format("{} of {} episodes ended at a limit, {} of them at {}", all, n,
                               most->second, most->first)};
}

}  // namespace

std::optional<Diagnosis> DiagnoseEpisodes(const GroupFacts& group, const CauseRules& rules) {
  const EpisodeSums sums = SumsOf(group);
  if (auto found = FailingCalls(group, sums, rules)) return found;
  if (auto found = Loops(sums, rules)) return found;
  return AtLimit(group, rules);
}

}  // namespace buttress
