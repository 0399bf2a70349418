// The life of a communicator that threads share: open, until it is aborted or ended. It keeps the
// rules of NCCL in one place, apart from NCCL.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"

namespace buttress {

// Calls, the abort and the end exclude one another, because NCCL lets one thread at a time use a
// communicator. The first of abort and end is the only one, and no call follows it. Thread-safe.
class CommunicatorLife {
 public:
  // `abort` lets go of the communicator while other ranks may wait in it, `destroy` after all ranks
  // have agreed that it is over. One of the two is called, once. `name` begins the errors.
  CommunicatorLife(std::string name, std::function<void()> abort, std::function<void()> destroy)
      : name_(std::move(name)), abort_(std::move(abort)), destroy_(std::move(destroy)) {}

  // Aborts, unless it was ended: a rank that leaves alone does not know what the others wait for.
  ~CommunicatorLife() { Abort(); }

  CommunicatorLife(const CommunicatorLife&) = delete;
  CommunicatorLife& operator=(const CommunicatorLife&) = delete;

  // Returns call(), whose error aborts. kAborted or kFailedPrecondition, without a call, after an
  // abort or the end. `call` must return soon, because an abort waits for it.
  Status Use(const std::string& what, const std::function<Status()>& call) EXCLUDES(mutex_);

  // Polls until `done` is true. An error of `done`, or of `may_wait`, which is given the time
  // waited so far, aborts. Between two polls another thread may abort.
  Status Wait(const std::string& what, const std::function<Result<bool>()>& done,
              const std::function<Status(std::chrono::milliseconds)>& may_wait) EXCLUDES(mutex_);

  // Returns done(), whose error does not abort; kAborted or kFailedPrecondition as Use.
  Result<bool> Poll(const std::string& what, const std::function<Result<bool>()>& done)
      EXCLUDES(mutex_);

  // Later calls return `why`, or kAborted without an error in it. Does nothing after an abort or
  // the end.
  void Abort(Status why = OkStatus()) EXCLUDES(mutex_);

  // Destroys the communicator. REQUIRES: every rank has made its last call. kAborted if this rank
  // has aborted.
  Status End() EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { kOpen, kAborted, kEnded };

  Status CheckOpen(const std::string& what) const REQUIRES(mutex_);
  void AbortIfOpen(Status why = OkStatus()) REQUIRES(mutex_);

  const std::string name_;
  const std::function<void()> abort_;
  const std::function<void()> destroy_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kOpen;
  Status why_ GUARDED_BY(mutex_);  // of the abort
};

}  // namespace buttress
