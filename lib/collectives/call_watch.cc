#include "lib/collectives/call_watch.h"

#include <utility>

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPoll{2};
constexpr std::chrono::hours kIdle{1};

}  // namespace

CallWatch::~CallWatch() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void CallWatch::Add(std::string what, std::function<Result<bool>()> done,
                    std::function<Status(std::chrono::milliseconds)> may_wait) {
  const MutexLock lock(mutex_);
  calls_.push_back({std::move(what), std::move(done), std::move(may_wait)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  changed_.NotifyAll();
}

void CallWatch::Loop() {
  using SteadyClock = std::chrono::steady_clock;
  for (;;) {
    Call call;
    {
      const MutexLock lock(mutex_);
      const auto wakes = [this]() REQUIRES(mutex_) { return stopped_ || !calls_.empty(); };
      while (!changed_.WaitFor(mutex_, kIdle, wakes)) continue;
      if (stopped_) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    const auto started = SteadyClock::now();
    for (bool waits = true; waits;) {
      const Result<bool> done = life_.Poll(call.what, call.done);
      Status status = done.status();
      if (status.ok() && !*done) {
        status = call.may_wait(
            std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - started));
      }
      if (!status.ok()) life_.Abort(status);
      waits = status.ok() && !*done;
      const MutexLock lock(mutex_);
      const auto stops = [this]() REQUIRES(mutex_) { return stopped_; };
      if (waits && changed_.WaitFor(mutex_, kPoll, stops)) return;
    }
  }
}

}  // namespace buttress
