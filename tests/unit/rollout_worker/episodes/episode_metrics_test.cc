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
  episode.branches[0].turns[0].failed_tools = 1;
  episode.branches[1].turns.resize(1);
  episode.branches[1].turns[0].tools = {"search"};
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
           "buttress_worker_failed_tool_calls_total 1\n",
           "buttress_worker_branches_total 2\n",
           "buttress_worker_reencoded_tokens_total 5\n",
       })
    EXPECT_THAT(text, HasSubstr(line));
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
