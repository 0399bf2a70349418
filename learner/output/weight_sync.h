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
#include "lib/weights/weight_files.h"

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

  // Takes over copies, which nobody changes.
  static ParameterCopy Of(NamedTensors copies);

  // Lets work that is enqueued from now on, in the current stream, wait for the copy. REQUIRES: the
  // parameters do not change between Start and this call.
  void BlockStream() const;

  // Whether the parameters themselves are read.
  bool in_place() const { return in_place_; }

  // Waits until the copy is complete and returns it, on the CPU.
  const NamedTensors& Wait() const;

 private:
  NamedTensors copies_;
  bool in_place_ = false;
  std::optional<c10::Event> done_;  // on a device
};

// Which rank writes which file of a version.
struct FilesByRank {
  std::vector<PlannedFile> files;
  std::vector<int> writers;  // ranks by file; rank 0 makes the version of them
  int rank = 0;              // of this process

  // The files that this process writes.
  std::vector<PlannedFile> own() const;
};

// Owns a thread that hashes and writes the files of a rank, one version at a time and in order; the
// thread of rank 0 then announces the version, once the files of the other ranks are there. One
// other thread calls the methods.
class WeightSync {
 public:
  using Announce = std::function<Status(const WeightManifest&)>;

  // For a rank other than 0. `folder` is that of the store.
  WeightSync(std::string folder, FilesByRank files);

  // For rank 0. `publisher` must outlive the object; the thread calls `announce`.
  WeightSync(std::string folder, FilesByRank files, WeightPublisher* publisher, Announce announce);

  // Waits until the versions handed over are announced; one that lacks the files of other ranks is
  // given up.
  ~WeightSync();
  WeightSync(const WeightSync&) = delete;
  WeightSync& operator=(const WeightSync&) = delete;

  // Waits until the previous version is announced, hands over the parameters of the files of this
  // rank and returns. `canaries` belong to these parameters. Returns the error of an earlier
  // version, if there was one. REQUIRES: WeightPublisher::Begin of the version, and if other ranks
  // write, ExpectWritten of their files, have been called.
  Status Publish(const PolicyVersion& version, ParameterCopy parameters,
                 std::vector<Canary> canaries);

  // REQUIRES: it is called after Publish, before the parameters change. On a device, work that is
  // enqueued later waits there for the copy; the host does not wait. On the CPU, waits until the
  // parameters are written, if they are read in place. kDeadlineExceeded after 10 minutes.
  Status BeforeUpdate();

  // Waits until the last version is announced, or on other ranks than 0, written. Returns the first
  // error, if there was one.
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
  Status AddFilesOfOthers(const std::string& folder, std::vector<WeightFile>& written) const;
  void DoneReading();

  const std::string folder_;  // of the store
  const FilesByRank files_;
  WeightPublisher* const publisher_;  // null except on rank 0
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
