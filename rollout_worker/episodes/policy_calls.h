// The calls of all episodes to the engine below: each gets its own sample id, and its result on the
// thread that polls.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "lib/base/thread/sync.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Thread-safe. Owns its thread, the only one that polls the engine.
class PolicyCalls {
 public:
  using Done = std::function<void(EngineResult)>;  // must not block

  // REQUIRES: `engine` outlives it.
  explicit PolicyCalls(InferenceEngine& engine);
  ~PolicyCalls();  // results that are missing never come
  PolicyCalls(const PolicyCalls&) = delete;
  PolicyCalls& operator=(const PolicyCalls&) = delete;

  // Samples `request`, whose id becomes one of its own, which is returned. A request that the
  // engine refuses has its result as well.
  SampleId Start(SampleRequest request, Done done) EXCLUDES(mutex_);

  // The call ends soon, with its result or as aborted.
  void Cancel(const SampleId& id) EXCLUDES(mutex_);

  // Counts tokens that the engine delivered and no episode has.
  void CountLost(std::int64_t tokens) { lost_ += tokens; }

  std::int64_t lost() const { return lost_; }

 private:
  void Run();
  void Submit(SampleRequest request) EXCLUDES(mutex_);
  void EndLocked(const SampleId& id, FinishReason reason, Status status) REQUIRES(mutex_);
  void Deliver(EngineResult result) EXCLUDES(mutex_);

  InferenceEngine& engine_;
  std::atomic<std::int64_t> lost_ = 0;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
  std::map<SampleId, Done> open_ GUARDED_BY(mutex_);
  std::deque<SampleRequest> refused_ GUARDED_BY(mutex_);  // by an engine that is full
  std::vector<EngineResult> ended_ GUARDED_BY(mutex_);    // that the engine has not sampled
  std::thread thread_;
};

}  // namespace buttress
