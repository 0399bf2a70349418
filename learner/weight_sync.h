// Brings new policy versions to the workers while the next step is already being trained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "learner/optimizer.h"
#include "lib/base/bounded_queue.h"
#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "lib/experience/types.h"
#include "lib/weights/publisher.h"

namespace buttress {

// Owns a thread that writes versions and announces them, in order. Used by one other thread.
class WeightSync {
 public:
  using Announce = std::function<Status(const WeightManifest&)>;

  // `publisher` must outlive it; `announce` is called on the thread.
  WeightSync(WeightPublisher& publisher, Announce announce);

  // Finishes what is under way.
  ~WeightSync();
  WeightSync(const WeightSync&) = delete;
  WeightSync& operator=(const WeightSync&) = delete;

  // Copies the parameters and returns; waits first while the version before is still being written.
  // `canaries` are those of these parameters. Fails if an earlier one failed.
  Status Publish(const PolicyVersion& version, const NamedTensors& parameters,
                 std::vector<Canary> canaries);

  // Until the last version is announced.
  Status Drain();

 private:
  struct Snapshot {
    PolicyVersion version;
    NamedTensors parameters;  // on the CPU
    std::vector<Canary> canaries;
  };

  void Loop();
  Status Send(Snapshot snapshot);
  Status WaitIdle();

  WeightPublisher& publisher_;
  const Announce announce_;
  BoundedQueue<Snapshot> queue_{1};
  Mutex mutex_;
  CondVar changed_;
  std::int64_t pending_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
