// Fetches new weights and loads them into the engine, on its own thread; the engine keeps the old
// weights meanwhile. A newer version interrupts the transfer of an older one, but not twice in a
// row, so that a worker whose transfers take longer than a step still loads new weights. So does a
// further source of the same version: the publisher may be out of reach, and the transfer continues
// behind the bytes received so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "lib/base/os/clock.h"
#include "lib/base/thread/sync.h"
#include "lib/weights/fetcher.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/held_groups.h"
#include "rollout_worker/worker_metrics.h"

namespace buttress {

// Thread-safe. Owns its thread. REQUIRES: the arguments outlive it.
class WeightUpdater {
 public:
  WeightUpdater(InferenceEngine& engine, WeightFetcher& fetcher, HeldGroups& groups,
                WorkerMetrics& metrics);

  ~WeightUpdater() { Stop(); }

  WeightUpdater(const WeightUpdater&) = delete;
  WeightUpdater& operator=(const WeightUpdater&) = delete;

  void Start();

  // Ends the thread, without waiting for a transfer or for a server that loads weights.
  // Idempotent.
  void Stop();

  // Requests that this version be loaded; a newer request replaces it. Returns false if the version
  // is loaded or requested already.
  bool Request(WeightManifest manifest);

  // Returns for how many milliseconds every attempt has failed; 0 if the last one succeeded.
  std::int64_t failing_ms() const;

  // Returns the seconds for which versions were fetched and loaded.
  double loading_seconds() const { return loading_seconds_.load(); }

 private:
  void Run();
  // Waits for a request; nullopt once stopped.
  std::optional<WeightManifest> WaitForRequest();
  Status Load(const WeightManifest& manifest);
  void RecordFailure(WeightStage stage, const WeightManifest& manifest, const Status& status);
  // Waits before the next attempt, but not once a version newer than `tried` is requested.
  void WaitToRetry(std::int64_t ms, const PolicyVersion& tried);

  InferenceEngine& engine_;
  WeightFetcher& fetcher_;
  HeldGroups& groups_;
  WorkerMetrics& metrics_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::optional<WeightManifest> requested_ GUARDED_BY(mutex_);
  std::optional<std::int64_t> failing_since_ms_ GUARDED_BY(mutex_);
  bool interrupted_ = false;  // the last transfer; of the thread
  std::atomic<double> loading_seconds_ = 0;
  std::thread thread_;
};

}  // namespace buttress
