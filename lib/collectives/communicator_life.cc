#include "lib/collectives/communicator_life.h"

#include <time.h>

#include <utility>

namespace buttress {
namespace {

// The pause between two polls; CUDA and NCCL have no wait with a deadline.
void PollPause() {
  constexpr timespec kRest{0, 20'000};
  ::nanosleep(&kRest, nullptr);
}

}  // namespace

Status CommunicatorLife::Use(const std::string& what, const std::function<Status()>& call) {
  const MutexLock lock(mutex_);
  BUTTRESS_RETURN_IF_ERROR(CheckOpen(what));
  Status status = call();
  if (!status.ok()) AbortIfOpen();
  return status;
}

Status CommunicatorLife::Wait(const std::string& what, const std::function<Result<bool>()>& done,
                              const std::function<Status(std::chrono::milliseconds)>& may_wait) {
  using SteadyClock = std::chrono::steady_clock;
  const auto started = SteadyClock::now();
  for (;;) {
    bool is_done = false;
    BUTTRESS_RETURN_IF_ERROR(Use(what, [&done, &is_done]() -> Status {
      BUTTRESS_ASSIGN_OR_RETURN(is_done, done());
      return OkStatus();
    }));
    if (is_done) return OkStatus();
    const Status status = may_wait(
        std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - started));
    if (!status.ok()) {
      Abort();
      return status;
    }
    PollPause();
  }
}

Result<bool> CommunicatorLife::Poll(const std::string& what,
                                    const std::function<Result<bool>()>& done) {
  const MutexLock lock(mutex_);
  BUTTRESS_RETURN_IF_ERROR(CheckOpen(what));
  return done();
}

void CommunicatorLife::Abort(Status why) {
  const MutexLock lock(mutex_);
  AbortIfOpen(std::move(why));
}

Status CommunicatorLife::End() {
  const MutexLock lock(mutex_);
  BUTTRESS_RETURN_IF_ERROR(CheckOpen("end"));
  state_ = State::kEnded;
  destroy_();
  return OkStatus();
}

Status CommunicatorLife::CheckOpen(const std::string& what) const {
  if (state_ == State::kAborted && !why_.ok()) return why_;
  if (state_ == State::kAborted) return Aborted(name_ + " " + what + ": the group was aborted");
  if (state_ == State::kEnded)
    return FailedPrecondition(name_ + " " + what + ": the group has ended; End is its last call");
  return OkStatus();
}

void CommunicatorLife::AbortIfOpen(Status why) {
  if (state_ != State::kOpen) return;
  state_ = State::kAborted;
  why_ = std::move(why);
  abort_();
}

}  // namespace buttress
