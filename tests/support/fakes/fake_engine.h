// An engine without a model: tokens come from the sample's seed, at once. Told to, it stalls,
// fails, cuts completions, or refuses weights.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/base/thread/sync.h"
#include "rollout_worker/engine.h"

namespace buttress {

class FakeEngine : public InferenceEngine {
 public:
  explicit FakeEngine(PolicyVersion version = {}) : version_(std::move(version)) {}

  // While stalled, samples are taken and stay in flight.
  void Stall(bool stalled);
  // The next `count` samples end in an error.
  void FailNext(int count, Status error = Unavailable("told to fail"));
  // The next `count` samples are cut at the token limit.
  void TruncateNext(int count);
  // The next `count` UpdateWeights fail; each counts as unchanged weights, a quarter of a nat from
  // the learner's.
  void FailUpdates(int count);

  // From now on no server serves, or one does: samples in flight are given back.
  void SetAvailable(bool available);

  // What stats() says of them.
  void SetServers(std::vector<ServerState> servers);

  // Whether it sleeps when it is asked to.
  void LetSleep(bool sleeps);
  // Waits at most ten seconds until it is asked to.
  bool WaitForSleep();

  // Waits at most ten seconds until exactly `count` samples are in flight.
  bool WaitForInFlight(std::size_t count);

  std::vector<PolicyVersion> updates() const;
  std::set<SampleId> cancelled() const;

  Status Submit(SampleRequest request) override;
  void Cancel(SampleId id) override;
  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override;
  Status UpdateWeights(const WeightManifest& manifest) override;
  bool Sleep() override;
  PolicyVersion version() const override;
  EngineStats stats() const override;

 private:
  EngineResult Complete(const SampleRequest& request) REQUIRES(mutex_);
  void CompleteAll() REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  PolicyVersion version_ GUARDED_BY(mutex_);
  bool stalled_ GUARDED_BY(mutex_) = false;
  bool available_ GUARDED_BY(mutex_) = true;
  bool sleeps_ GUARDED_BY(mutex_) = true;
  bool asked_to_sleep_ GUARDED_BY(mutex_) = false;
  int fail_ GUARDED_BY(mutex_) = 0;
  Status error_ GUARDED_BY(mutex_);
  int truncate_ GUARDED_BY(mutex_) = 0;
  int fail_updates_ GUARDED_BY(mutex_) = 0;
  std::int64_t refused_updates_ GUARDED_BY(mutex_) = 0;
  std::vector<ServerState> servers_ GUARDED_BY(mutex_);
  std::map<SampleId, SampleRequest> in_flight_ GUARDED_BY(mutex_);
  std::deque<EngineResult> results_ GUARDED_BY(mutex_);
  std::vector<PolicyVersion> updates_ GUARDED_BY(mutex_);
  std::set<SampleId> cancelled_ GUARDED_BY(mutex_);
};

}  // namespace buttress
