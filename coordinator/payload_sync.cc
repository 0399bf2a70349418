#include "coordinator/payload_sync.h"

#include <chrono>
#include <utility>

#include "lib/base/check.h"

namespace buttress {
namespace {

// A disk may take any time; the waits go on after this one.
constexpr std::chrono::seconds kOneWait(10);

}  // namespace

PayloadSync::PayloadSync(std::function<Status()> sync) : sync_(std::move(sync)) {
  thread_ = std::thread([this] { Run(); });
}

PayloadSync::~PayloadSync() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void PayloadSync::Begin() {
  BUTTRESS_CHECK(!under_way_, "a sync begins after the end of the one before");
  under_way_ = true;
  MutexLock lock(mutex_);
  wanted_ = true;
  changed_.NotifyAll();
}

Status PayloadSync::Wait() {
  BUTTRESS_CHECK(under_way_, "Begin is called before Wait");
  MutexLock lock(mutex_);
  while (!changed_.WaitFor(mutex_, kOneWait,
                           [this]() REQUIRES(mutex_) { return done_.has_value(); })) {
  }
  under_way_ = false;
  return *std::exchange(done_, std::nullopt);
}

void PayloadSync::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!changed_.WaitFor(mutex_, kOneWait,
                               [this]() REQUIRES(mutex_) { return wanted_ || closed_; })) {
      }
      if (!wanted_) return;
      wanted_ = false;
    }
    Status status = sync_();
    MutexLock lock(mutex_);
    done_ = std::move(status);
    changed_.NotifyAll();
  }
}

}  // namespace buttress
