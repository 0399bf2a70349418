// Mutex, lock and condition variable with Clang's thread-safety annotations, so that a missed lock
// is a lint error.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define BUTTRESS_ANNOTATION(x) __attribute__((x))
#else
#define BUTTRESS_ANNOTATION(x)
#endif
#define CAPABILITY(x) BUTTRESS_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY BUTTRESS_ANNOTATION(scoped_lockable)
#ifndef GUARDED_BY  // abseil, which gRPC's headers bring in, defines the same
#define GUARDED_BY(x) BUTTRESS_ANNOTATION(guarded_by(x))
#endif
#define REQUIRES(...) BUTTRESS_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) BUTTRESS_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) BUTTRESS_ANNOTATION(release_capability(__VA_ARGS__))
#define EXCLUDES(...) BUTTRESS_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace buttress {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }

  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }

  ~MutexLock() RELEASE() { mutex_.Unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Waits until notified, `ready()` holds, or `timeout` has passed; returns ready().
  template <class Ready>
  bool WaitFor(Mutex& mutex, std::chrono::milliseconds timeout, Ready ready) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool done = condition_.wait_for(lock, timeout, ready);
    lock.release();
    return done;
  }

  void NotifyOne() { condition_.notify_one(); }

  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// Tells threads to leave, once and for all. Thread-safe.
class StopSignal {
 public:
  void Stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }

  bool stopped() const {
    MutexLock lock(mutex_);
    return stopped_;
  }

  // Waits until stopped or `timeout` has passed; returns stopped().
  bool WaitFor(std::chrono::milliseconds timeout) const {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, timeout, [this] { return stopped_; });
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace buttress
