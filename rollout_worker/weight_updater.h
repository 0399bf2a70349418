// Brings new weights to the engine on a thread of its own, while the old ones serve.
#pragma once

#include <cstdint>
#include <optional>
#include <thread>

#include "lib/base/clock.h"
#include "lib/base/sync.h"
#include "lib/weights/fetcher.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/worker_metrics.h"

namespace buttress {

// Thread-safe. Owns its thread; the arguments outlive it.
class WeightUpdater {
 public:
  WeightUpdater(InferenceEngine& engine, WeightFetcher& fetcher, HeldGroups& groups,
                WorkerMetrics& metrics);

  ~WeightUpdater() { Stop(); }

  WeightUpdater(const WeightUpdater&) = delete;
  WeightUpdater& operator=(const WeightUpdater&) = delete;

  void Start();

  // Ends the thread after the transfer that it is in. Safe to repeat.
  void Stop();

  // Loads this version as soon as it can be had; a newer one takes its place. False if it is not
  // news.
  bool Want(const WeightManifest& manifest);

  // Milliseconds for which every attempt has failed; 0 when the last one succeeded.
  std::int64_t failing_ms() const;

 private:
  void Run();
  // The version to load next; nothing once stopped.
  std::optional<WeightManifest> Next();
  Status Load(const WeightManifest& manifest);
  void Fail(WeightStage stage, const WeightManifest& manifest, const Status& status);
  // Waits before the next attempt, less if something newer is wanted.
  void Pause(std::int64_t ms, const PolicyVersion& tried);

  InferenceEngine& engine_;
  WeightFetcher& fetcher_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::optional<WeightManifest> wanted_ GUARDED_BY(mutex_);
  std::optional<std::int64_t> failing_since_ms_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
