// A bounded queue between threads. The bound makes a slow reader slow its writers down instead of
// filling memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "lib/base/thread/sync.h"

namespace buttress {

// Thread-safe. After Close, pushes fail and pops return the remaining items.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // Moves `item` into the queue. Returns false, and leaves `item` unchanged, if the queue stayed
  // full for `timeout` or is closed.
  bool Push(T& item, std::chrono::milliseconds timeout) {
    MutexLock lock(mutex_);
    const auto room = [this]() REQUIRES(mutex_) { return closed_ || items_.size() < capacity_; };
    if (!changed_.WaitFor(mutex_, timeout, room) || closed_) return false;
    items_.push_back(std::move(item));
    changed_.NotifyAll();
    return true;
  }

  // Removes the oldest item. Returns nullopt if the queue stayed empty for `timeout`, or is closed
  // and empty.
  std::optional<T> Pop(std::chrono::milliseconds timeout) {
    MutexLock lock(mutex_);
    const auto any = [this]() REQUIRES(mutex_) { return closed_ || !items_.empty(); };
    if (!changed_.WaitFor(mutex_, timeout, any) || items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.NotifyAll();
    return item;
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

 private:
  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace buttress
