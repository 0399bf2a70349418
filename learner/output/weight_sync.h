// Publishes policy versions on a thread of its own, while the next step is trained. Torch.
#pragma once

#include <c10/core/Event.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/bounded_queue.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/types.h"
#include "lib/weights/publisher.h"

namespace buttress {

// The parameters in host memory, for a reader on another thread.
//
// On a device they are copied to pinned memory in a stream of its own, while the device computes
// on. On the CPU they are read where they are, which costs no memory, and do not change before the
// reader is done (WeightSync). One thread may wait for the copy and another block on it.
class ParameterCopy {
 public:
  // Copies the values that the work enqueued in the current stream leaves. The parameters must live
  // as long as the copy is in progress. Throws what LibTorch throws.
  static ParameterCopy Start(const NamedTensors& parameters);

  // Lets work that is enqueued from now on, in the current stream, wait for the copy. REQUIRES: the
  // parameters do not change between Start and this call.
  void BlockStream() const;

  // Whether the parameters themselves are read.
  bool in_place() const { return !done_; }

  // Waits until the copy is complete and returns it, on the CPU.
  const NamedTensors& Wait() const;

 private:
  NamedTensors copies_;
  std::optional<c10::Event> done_;  // on a device
};

// Owns a thread that hashes, writes and announces versions, in order and one at a time. One other
// thread calls the methods.
class WeightSync {
 public:
  using Announce = std::function<Status(const WeightManifest&)>;

  // `publisher` must outlive the object; the thread calls `announce`.
  WeightSync(WeightPublisher& publisher, Announce announce);

  // Waits until the versions handed over are announced.
  ~WeightSync();
  WeightSync(const WeightSync&) = delete;
  WeightSync& operator=(const WeightSync&) = delete;

  // Waits until the previous version is announced, starts to read the parameters and returns.
  // `canaries` belong to these parameters. Returns the error of an earlier version, if there was
  // one.
  Status Publish(const PolicyVersion& version, const NamedTensors& parameters,
                 std::vector<Canary> canaries);

  // REQUIRES: it is called after Publish, before the parameters change. On a device, work that is
  // enqueued later waits there for the copy; the host does not wait. On the CPU, waits until the
  // parameters are written. kDeadlineExceeded after 10 minutes.
  Status BeforeUpdate();

  // Waits until the last version is announced. Returns the first error, if there was one.
  Status Drain();

  // The versions in a row, up to the newest that is published, with the weights of the one before.
  std::int64_t unchanged_versions() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return unchanged_;
  }

  // How long the methods above have waited for the thread, in all.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Snapshot {
    PolicyVersion version;
    std::shared_ptr<const ParameterCopy> parameters;
    std::vector<Canary> canaries;
  };

  void Loop();
  Status Send(Snapshot snapshot);
  void DoneReading();

  WeightPublisher& publisher_;
  const Announce announce_;
  std::weak_ptr<const ParameterCopy> copy_;  // expired once it is written
  double seconds_waited_ = 0;                // the caller's
  BoundedQueue<Snapshot> queue_{1};
  Mutex mutex_;
  CondVar changed_;
  std::int64_t pending_ GUARDED_BY(mutex_) = 0;
  bool reading_ GUARDED_BY(mutex_) = false;  // the parameters themselves
  Status failure_ GUARDED_BY(mutex_);
  std::string digest_ GUARDED_BY(mutex_);  // of the newest version's weights
  std::int64_t unchanged_ GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace buttress
