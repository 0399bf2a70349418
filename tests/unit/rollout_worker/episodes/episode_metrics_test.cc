#include "rollout_worker/episodes/episode_metrics.h"

#include <gmock/gmock.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EpisodeMetricsTest, EpisodesAreCountedByEndTurnsToolsAndBranches) {
  Metrics metrics("worker");
  EpisodeMetrics counts(metrics);
  Episode episode;
  episode.branches.resize(2);
  episode.branches[0].turns.resize(2);
  episode.branches[0].turns[0].tools = {"search", "python", ""};
  episode.branches[0].turns[0].failed_tools = 2;
  episode.branches[0].turns[0].end = 7;
  episode.branches[0].turns[1].begin = 9;
  episode.branches[0].turns[1].end = 12;
  episode.branches[0].turns[1].waited_ms = 500;
  episode.branches[0].turns[1].sampled_ms = 1500;
  episode.branches[1].turns.resize(1);
  episode.branches[1].turns[0].tools = {"search"};
  episode.branches[1].turns[0].failed_tools = 1;
  episode.end = EpisodeEnd::kTools;
  episode.reencoded_tokens = 5;
  counts.Count(episode);
  episode = {};
  episode.end = EpisodeEnd::kFailed;
  counts.Count(episode);
  const std::string text = metrics.Expose();
  for (const char* line : {
           "buttress_worker_episodes_total{end=\"tools\"} 1\n",
           "buttress_worker_episodes_total{end=\"failed\"} 1\n",
           "buttress_worker_episode_turns_sum 3\n",
           "buttress_worker_tool_calls_total{tool=\"search\"} 2\n",
           "buttress_worker_tool_calls_total{tool=\"unreadable\"} 1\n",
           "buttress_worker_failed_tool_calls_total{tool=\"search\"} 1\n",
           "buttress_worker_failed_tool_calls_total{tool=\"unreadable\"} 1\n",
           "buttress_worker_failed_tool_calls_total{tool=\"several\"} 1\n",
           "buttress_worker_turns_total{turn=\"1\"} 2\n",
           "buttress_worker_turns_total{turn=\"2\"} 1\n",
           "buttress_worker_turn_tokens_total{turn=\"1\"} 7\n",
           "buttress_worker_turn_tokens_total{turn=\"2\"} 3\n",
           "buttress_worker_turn_seconds_total{part=\"others\",turn=\"2\"} 0.5\n",
           "buttress_worker_turn_seconds_total{part=\"policy\",turn=\"2\"} 1.5\n",
           "buttress_worker_branches_total 2\n",
           "buttress_worker_reencoded_tokens_total 5\n",
       })
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(EpisodeMetricsTest, LateTurnsShareASeries) {
  Metrics metrics("worker");
  Episode episode;
  episode.branches.resize(1);
  episode.branches[0].turns.resize(20);
  EpisodeMetrics(metrics).Count(episode);
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_worker_turns_total{turn=\"later\"} 4\n"));
}

TEST(EpisodeMetricsTest, ToolsThatAPolicyMakesUpShareASeries) {
  Metrics metrics("worker");
  EpisodeMetrics counts(metrics);
  Episode episode;
  episode.branches.resize(1);
  episode.branches[0].turns.resize(1);
  for (int i = 0; i < 1000; ++i)
    episode.branches[0].turns[0].tools.push_back("tool" + std::to_string(i));
  counts.Count(episode);
  EXPECT_THAT(metrics.Expose(), HasSubstr("{tool=\"other\"} 936\n"));
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("tool500")));
}

}  // namespace
}  // namespace buttress
