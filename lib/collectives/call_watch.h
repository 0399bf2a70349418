// Watches the calls on a communicator that no thread waits for (Work::Join).
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/collectives/communicator_life.h"

namespace buttress {

// Polls the calls in their order, in a thread of its own that starts with the first. A call that
// fails, or may not wait on, aborts the communicator; the next call on it returns the error. What
// the device does after the failed call then comes to an end, so that a host which waits for the
// device does not wait for ever. Thread-safe.
class CallWatch {
 public:
  // `life` must outlive the watch.
  explicit CallWatch(CommunicatorLife& life) : life_(life) {}

  // Forgets the calls that are left.
  ~CallWatch();

  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // `done` and `may_wait` are those of CommunicatorLife::Wait. The time waited begins when the
  // calls before it are done.
  void Add(std::string what, std::function<Result<bool>()> done,
           std::function<Status(std::chrono::milliseconds)> may_wait) EXCLUDES(mutex_);

 private:
  struct Call {
    std::string what;
    std::function<Result<bool>()> done;
    std::function<Status(std::chrono::milliseconds)> may_wait;
  };

  void Loop() EXCLUDES(mutex_);

  CommunicatorLife& life_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Call> calls_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace buttress
