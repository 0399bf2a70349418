// Metrics of the episodes that a worker has ended.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "lib/base/report/metrics.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/episodes/episode.h"

namespace buttress {

// Makes a series with its first value, so a run without episodes has none. Thread-safe.
class EpisodeMetrics {
 public:
  // REQUIRES: `metrics` outlives it.
  explicit EpisodeMetrics(Metrics& metrics) : metrics_(metrics) {}

  void Count(const Episode& episode) EXCLUDES(mutex_);

 private:
  void CountTurn(const EpisodeTurn& turn, std::size_t index);
  void CountTools(const EpisodeTurn& turn) EXCLUDES(mutex_);
  std::string LabelOf(const std::string& tool) EXCLUDES(mutex_);

  Metrics& metrics_;
  Mutex mutex_;
  std::set<std::string> tools_ GUARDED_BY(mutex_);  // that have series
};

}  // namespace buttress
