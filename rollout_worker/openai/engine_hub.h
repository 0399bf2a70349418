// Shares an engine between callers that hear of their own samples.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "rollout_worker/engine.h"

namespace buttress {

// What hears of the samples that were submitted together, by the index in their ids. Called on the
// thread of the hub; returns soon.
class SampleWatcher {
 public:
  virtual ~SampleWatcher() = default;

  // Whether OnProgress is wanted.
  virtual bool streams() const { return false; }

  // The tokens that a sample has by now.
  virtual void OnProgress(const EngineResult&) {}

  // The end of a sample, once for each.
  virtual void OnDone(EngineResult result) = 0;
};

// Thread-safe.
class EngineHub {
 public:
  // Nothing else polls `engine`, which outlives the hub. At most `most` samples are open at once.
  EngineHub(InferenceEngine& engine, std::int64_t most);

  // Ends the samples that are open with kCancelled.
  ~EngineHub();
  EngineHub(const EngineHub&) = delete;
  EngineHub& operator=(const EngineHub&) = delete;

  // Queues samples, or none of them: kResourceExhausted if more than `most` would be open, and the
  // errors of the engine, but that samples wait while it is full. Sets the lease epochs of their
  // ids to what is returned, by which they are cancelled, and the indices to their order.
  Result<std::uint64_t> Submit(std::vector<SampleRequest> samples,
                               std::shared_ptr<SampleWatcher> watcher);

  // Cancels the samples that are still open of those that were submitted together.
  void Cancel(std::uint64_t call);

  // Ends the samples that are open with the tokens that they have, kAbort and an OK status, then
  // calls `paused` on the thread of the hub. Samples that are submitted from then on wait for
  // Resume.
  void Pause(std::function<void()> paused);
  void Resume();

  // Samples that have not ended.
  std::int64_t open() const;

 private:
  void Run();
  void SubmitHeld() REQUIRES(mutex_);
  void Abort(const Status& status);
  void Progress(std::vector<EngineResult> results);
  void Finish(EngineResult result);

  InferenceEngine& engine_;
  const std::int64_t most_;
  mutable Mutex mutex_;
  std::map<SampleId, std::shared_ptr<SampleWatcher>> open_ GUARDED_BY(mutex_);
  // Of open_: those that the engine does not have, as it is full or the hub is paused, and the
  // ends of those that it will not have.
  std::deque<SampleRequest> held_ GUARDED_BY(mutex_);
  std::vector<EngineResult> ended_ GUARDED_BY(mutex_);
  std::vector<std::function<void()>> pauses_ GUARDED_BY(mutex_);  // asked for, not yet done
  std::uint64_t last_call_ GUARDED_BY(mutex_) = 0;
  std::int64_t streams_ GUARDED_BY(mutex_) = 0;  // of open_
  bool paused_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace buttress
