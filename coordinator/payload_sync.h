// The thread that makes payloads durable while the loop writes the ledger.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "lib/base/status.h"
#include "lib/base/sync.h"

namespace buttress {

// Runs one sync at a time. Begin, Wait and the destructor are called by one thread, its owner.
class PayloadSync {
 public:
  // Starts the thread. `sync` is called on it, and nowhere else.
  explicit PayloadSync(std::function<Status()> sync);

  // Waits for the sync that is under way, and ends the thread.
  ~PayloadSync();
  PayloadSync(const PayloadSync&) = delete;
  PayloadSync& operator=(const PayloadSync&) = delete;

  // Begins a sync. REQUIRES: none is under way.
  void Begin();

  // Returns true from Begin until Wait returns.
  bool under_way() const { return under_way_; }

  // Waits until the sync has ended, and returns its status. REQUIRES: one is under way.
  Status Wait();

 private:
  void Run();

  const std::function<Status()> sync_;
  bool under_way_ = false;  // of the owner
  Mutex mutex_;
  CondVar changed_;
  bool wanted_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::optional<Status> done_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
