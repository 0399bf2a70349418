#include "lib/rl/episode_summary.h"

#include <array>
#include <numeric>

#include "lib/experience/episode_ends.h"
#include "lib/experience/episodes.h"

namespace buttress {
namespace {

template <class Column>
double SumOf(const Column& column) {
  return std::accumulate(column.begin(), column.end(), 0.0);
}

}  // namespace

void SummarizeEpisodes(const Plan& plan, BatchMeasurements& summary) {
  std::array<double, kEpisodeEnds.size()> ends{};
  double episodes = 0, turns = 0;
  double counted_episodes = 0, counted_turns = 0, calls = 0, failed = 0, repeated = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    if (group->turns().empty()) continue;
    episodes += Episodes(*group);
    turns += SumOf(group->turns());
    for (int i = 0; i < Completions(*group); ++i)
      ends[static_cast<std::size_t>(group->episode_ends(i))] += IsRoot(*group, i) ? 1 : 0;
    if (group->tool_calls().empty()) continue;
    counted_episodes += Episodes(*group);
    counted_turns += SumOf(group->turns());
    calls += SumOf(group->tool_calls());
    failed += SumOf(group->failed_tool_calls());
    repeated += SumOf(group->repeated_answers());
  }
  const auto end_share = [&](v1::EpisodeEnd end) {
    return BatchMeasurements::Ratio(ends[static_cast<std::size_t>(end)], episodes);
  };
  summary.turns_mean = BatchMeasurements::Ratio(turns, episodes);
  summary.tool_calls_mean = BatchMeasurements::Ratio(calls, counted_episodes);
  summary.failed_calls_share = BatchMeasurements::Ratio(failed, calls);
  summary.repeated_answers_share = BatchMeasurements::Ratio(repeated, counted_turns);
  summary.ends_done = end_share(v1::EPISODE_END_DONE);
  summary.ends_turns = end_share(v1::EPISODE_END_TURNS);
  summary.ends_tokens = end_share(v1::EPISODE_END_TOKENS);
  summary.ends_tools = end_share(v1::EPISODE_END_TOOLS);
  summary.ends_time = end_share(v1::EPISODE_END_TIME);
  summary.ends_failed = end_share(v1::EPISODE_END_FAILED);
}

}  // namespace buttress
