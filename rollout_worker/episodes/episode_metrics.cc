#include "rollout_worker/episodes/episode_metrics.h"

#include <cstdint>

#include "lib/experience/episode_ends.h"

namespace buttress {
namespace {

// A policy makes names up, and each would be a series.
constexpr std::size_t kMostTools = 64;
// Later turns share one series.
constexpr std::size_t kMostTurns = 16;

std::string LabelOfTurn(std::size_t index) {
  return index < kMostTurns ? std::to_string(index + 1) : "later";
}

constexpr double kMsOfSecond = 1000;

}  // namespace

std::string EpisodeMetrics::LabelOf(const std::string& tool) {
  if (tool.empty()) return "unreadable";
  const MutexLock lock(mutex_);
  if (tools_.contains(tool)) return tool;
  if (tools_.size() >= kMostTools) return "other";
  return *tools_.insert(tool).first;
}

void EpisodeMetrics::CountTurn(const EpisodeTurn& turn, std::size_t index) {
  const std::string label = LabelOfTurn(index);
  metrics_
      .Counter("buttress_worker_turns_total",
               "Answers of the policy by their number in the conversation; beyond 16, later.",
               {{"turn", label}})
      .Increment();
  metrics_
      .Counter("buttress_worker_turn_tokens_total",
               "Tokens of the answers, by their number in the conversation.", {{"turn", label}})
      .Increment(turn.end - turn.begin);
  const auto seconds = [&](const char* part, std::int64_t ms) {
    metrics_
        .Counter("buttress_worker_turn_seconds_total",
                 "Seconds of turns by their number in the conversation and part: others, which are "
                 "tools, users and agents before the answer, and policy.",
                 {{"turn", label}, {"part", part}})
        .Increment(static_cast<double>(ms) / kMsOfSecond);
  };
  seconds("others", turn.waited_ms);
  seconds("policy", turn.sampled_ms);
}

// A turn says how many of its calls failed, and not which.
void EpisodeMetrics::CountTools(const EpisodeTurn& turn) {
  const auto failed = [&](const std::string& tool, double count) {
    metrics_
        .Counter("buttress_worker_failed_tool_calls_total",
                 "Tool calls that failed, by tool: an error of the tool, an unknown one, or "
                 "arguments that do not parse (unreadable); several: some of several calls of a "
                 "turn.",
                 {{"tool", tool}})
        .Increment(count);
  };
  const bool all = turn.failed_tools == static_cast<std::int32_t>(turn.tools.size());
  std::int32_t rest = turn.failed_tools;
  for (const std::string& tool : turn.tools) {
    const std::string label = LabelOf(tool);
    metrics_
        .Counter(
            "buttress_worker_tool_calls_total",
            "Tool calls of the policy by tool; beyond 64 names, other; unreadable: a call that "
            "does not parse.",
            {{"tool", label}})
        .Increment();
    if (!all && !tool.empty()) continue;
    failed(label, 1);
    --rest;
  }
  if (rest > 0) failed("several", rest);
}

void EpisodeMetrics::Count(const Episode& episode) {
  metrics_
      .Counter("buttress_worker_episodes_total", "Episodes by why they ended.",
               {{"end", std::string(kEpisodeEnds[static_cast<std::size_t>(episode.end)])}})
      .Increment();
  std::size_t turns = 0;
  for (const EpisodeBranch& branch : episode.branches) {
    turns += branch.turns.size();
    for (std::size_t t = 0; t < branch.turns.size(); ++t) {
      CountTurn(branch.turns[t], t);
      CountTools(branch.turns[t]);
    }
  }
  metrics_
      .Histogram("buttress_worker_episode_turns", "Answers of the policy in an episode.",
                 {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})
      .Observe(static_cast<double>(turns));
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
