// The coordinator's one thread, which runs the turns of a core (loop_core.h): one at once while
// requests wait or prompts are wanted, else when a lease or a long poll is due.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "coordinator/loop/loop_core.h"
#include "coordinator/loop/quota.h"
#include "lib/base/thread/bounded_queue.h"

namespace buttress {

// The calls that wait or are parked, and the memory of their requests.
inline constexpr std::size_t kMostCalls = 4096;
inline constexpr std::uint64_t kMostCallBytes = std::uint64_t{64} << 20;

class CoordinatorLoop final : private Inbox {
 public:
  // Starts the thread.
  explicit CoordinatorLoop(LoopCore::Parts parts);
  ~CoordinatorLoop() override;
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  // Queues a request. Returns false, without keeping it, if too many calls wait or the loop has
  // stopped. Thread-safe.
  bool Post(LoopRequest* request);

  // Stops leasing and answers every long poll; other calls are still served. Thread-safe.
  void Drain();

  // Answers what was posted, ends the thread, and returns the error that stopped the loop, if there
  // was one. REQUIRES: Drain() was called.
  Status Stop();

  // LoopCore::finished and stopped. Thread-safe.
  bool finished() const { return core_.finished(); }

  bool stopped() const { return core_.stopped(); }

  // Whether an error has stopped the loop, which Stop returns. Thread-safe.
  bool failed() const { return failed_; }

 private:
  void Run();

  std::vector<LoopRequest*> Take() override;

  bool empty() const override { return queue_.size() == 0; }

  bool draining() const override { return draining_; }

  void Done(const LoopRequest& request) override { calls_.Return(request.terms.bytes); }

  Quota calls_{kMostCalls, kMostCallBytes};
  BoundedQueue<LoopRequest*> queue_;   // a null pointer only wakes the loop
  std::optional<LoopRequest*> first_;  // taken from the queue by the wait for it
  std::atomic<bool> draining_ = false;
  std::atomic<bool> failed_ = false;
  LoopCore core_;  // of the thread alone, but for what is thread-safe
  std::thread thread_;
};

}  // namespace buttress
