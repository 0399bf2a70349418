#include "rollout_worker/episodes/episode_metrics.h"

#include "lib/experience/episode_ends.h"

namespace buttress {
namespace {

// A policy makes names up, and each would be a series.
constexpr std::size_t kMostTools = 64;

}  // namespace

std::string EpisodeMetrics::LabelOf(const std::string& tool) {
  if (tool.empty()) return "unreadable";
  const MutexLock lock(mutex_);
  if (tools_.contains(tool)) return tool;
  if (tools_.size() >= kMostTools) return "other";
  return *tools_.insert(tool).first;
}

void EpisodeMetrics::Count(const Episode& episode) {
  metrics_
      .Counter("buttress_worker_episodes_total", "Episodes by why they ended.",
               {{"end", std::string(kEpisodeEnds[static_cast<std::size_t>(episode.end)])}})
      .Increment();
  std::size_t turns = 0;
  std::int32_t failed = 0;
  for (const EpisodeBranch& branch : episode.branches) {
    turns += branch.turns.size();
    for (const EpisodeTurn& turn : branch.turns) {
      failed += turn.failed_tools;
      for (const std::string& tool : turn.tools) {
        metrics_
            .Counter(
                "buttress_worker_tool_calls_total",
                "Tool calls of the policy by tool; beyond 64 names, other; unreadable: a call that "
                "does not parse.",
                {{"tool", LabelOf(tool)}})
            .Increment();
      }
    }
  }
  metrics_
      .Histogram("buttress_worker_episode_turns", "Answers of the policy in an episode.",
                 {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})
      .Observe(static_cast<double>(turns));
  metrics_
      .Counter("buttress_worker_failed_tool_calls_total",
               "Tool calls that failed: unknown tool, arguments that do not parse, an error of the "
               "tool.")
      .Increment(failed);
  metrics_
      .Counter("buttress_worker_branches_total",
               "Conversations of episodes: each has one, and one more wherever a request leaves "
               "what it was.")
      .Increment(static_cast<double>(episode.branches.size()));
  metrics_
      .Counter("buttress_worker_reencoded_tokens_total",
               "Tokens of the policy that came back as the text of a conversation that it did not "
               "continue, and were encoded again.")
      .Increment(static_cast<double>(episode.reencoded_tokens));
}

}  // namespace buttress
