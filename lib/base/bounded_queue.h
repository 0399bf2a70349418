// A queue between two threads with a bound, so that a slow reader slows its writer instead of
// filling memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "lib/base/sync.h"

namespace buttress {

// Thread-safe. After Close() pushes fail and pops drain what is left.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False if the queue stayed full for `timeout`, or is closed; `item` is then unchanged.
  bool Push(T& item, std::chrono::milliseconds timeout) {
    MutexLock lock(mutex_);
    const auto room = [this] { return closed_ || items_.size() < capacity_; };
    if (!changed_.WaitFor(mutex_, timeout, room) || closed_) return false;
    items_.push_back(std::move(item));
    changed_.NotifyAll();
    return true;
  }

  // Nothing if the queue stayed empty for `timeout`, or is closed and drained.
  std::optional<T> Pop(std::chrono::milliseconds timeout) {
    MutexLock lock(mutex_);
    const auto any = [this] { return closed_ || !items_.empty(); };
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
