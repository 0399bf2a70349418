#include "rollout_worker/weight_updater.h"

#include <utility>

#include "lib/base/net/retry.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kWaitPoll(200);

}  // namespace

WeightUpdater::WeightUpdater(InferenceEngine& engine, WeightFetcher& fetcher, HeldGroups& groups,
                             WorkerMetrics& metrics)
    : engine_(engine), fetcher_(fetcher), groups_(groups), metrics_(metrics) {
  metrics_.weights_version.Set(static_cast<double>(engine_.version().step));
}

void WeightUpdater::Start() {
  thread_ = std::thread([this] { Run(); });
}

void WeightUpdater::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  engine_.StopUpdates();
  if (thread_.joinable()) thread_.join();
}

bool WeightUpdater::Request(WeightManifest manifest) {
  const PolicyVersion loaded = engine_.version();
  MutexLock lock(mutex_);
  if (!OlderThan(loaded, manifest.version)) return false;
  if (requested_.has_value() && !OlderThan(requested_->version, manifest.version)) {
    // The repeated manifest of a version may list more sources.
    if (requested_->version == manifest.version) requested_ = std::move(manifest);
    return false;
  }
  if (requested_.has_value()) engine_.InterruptUpdate();
  requested_ = std::move(manifest);
  changed_.NotifyAll();
  return true;
}

std::int64_t WeightUpdater::failing_ms() const {
  MutexLock lock(mutex_);
  return failing_since_ms_.has_value() ? RealClock().MonotonicMs() - *failing_since_ms_ : 0;
}

void WeightUpdater::Run() {
  Backoff backoff({}, HashText("weights"));
  while (const std::optional<WeightManifest> manifest = WaitForRequest()) {
    if (Load(*manifest).ok()) {
      backoff.Reset();
    } else {
      WaitToRetry(backoff.NextMs(), manifest->version);
    }
  }
}

std::optional<WeightManifest> WeightUpdater::WaitForRequest() {
  MutexLock lock(mutex_);
  const auto ready = [this]() REQUIRES(mutex_) { return stopped_ || requested_.has_value(); };
  while (!changed_.WaitFor(mutex_, kWaitPoll, ready)) {
  }
  return stopped_ ? std::nullopt : requested_;
}

Status WeightUpdater::Load(const WeightManifest& manifest) {
  const double started = MonotonicSeconds();
  const Result<WeightManifest> fetched = fetcher_.Fetch(manifest, [&] {
    MutexLock lock(mutex_);
    if (stopped_ || !requested_.has_value()) return stopped_;
    const bool newer = OlderThan(manifest.version, requested_->version);
    return newer ? !interrupted_ : requested_->sources.size() > manifest.sources.size();
  });
  interrupted_ = fetched.status().code() == StatusCode::kCancelled;
  if (interrupted_) return fetched.status();
  if (!fetched.ok()) {
    const bool wrong_bytes = fetched.status().code() == StatusCode::kDataLoss;
    RecordFailure(wrong_bytes ? WeightStage::kChecksum : WeightStage::kFetch, manifest,
                  fetched.status());
    return fetched.status();
  }
  std::uint64_t seen = 0;
  while (groups_.NeedsExactly(engine_.version())) {
    seen = groups_.WaitForChange(seen, kWaitPoll);
    MutexLock lock(mutex_);
    if (stopped_) return Cancelled("stopped");
  }
  const Status applied = engine_.UpdateWeights(*fetched);
  if (applied.code() == StatusCode::kCancelled) return applied;
  if (!applied.ok()) {
    RecordFailure(WeightStage::kApply, manifest, applied);
    return applied;
  }
  {
    MutexLock lock(mutex_);
    failing_since_ms_.reset();
    if (requested_.has_value() && requested_->version == manifest.version) requested_.reset();
  }
  const double seconds = MonotonicSeconds() - started;
  metrics_.weights_version.Set(static_cast<double>(manifest.version.step));
  metrics_.weight_update_seconds.Observe(seconds);
  loading_seconds_ += seconds;
  SetLogStep(static_cast<std::int64_t>(manifest.version.step),
             static_cast<std::int64_t>(manifest.version.step));
  Log(kInfo, "weights loaded", {{"policy", ToString(manifest.version)}, {"seconds", seconds}});
  groups_.Notify();
  return applied;
}

void WeightUpdater::RecordFailure(WeightStage stage, const WeightManifest& manifest,
                                  const Status& status) {
  metrics_.CountWeightFailure(stage);
  Log(kWarn, "weights could not be loaded; the engine keeps the old ones",
      {{"policy", ToString(manifest.version)}, {"error", status.ToString()}});
  MutexLock lock(mutex_);
  if (!failing_since_ms_.has_value()) failing_since_ms_ = RealClock().MonotonicMs();
}

void WeightUpdater::WaitToRetry(std::int64_t ms, const PolicyVersion& tried) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, std::chrono::milliseconds(ms), [&]() REQUIRES(mutex_) {
    return stopped_ || !requested_.has_value() || OlderThan(tried, requested_->version);
  });
}

}  // namespace buttress
