// Mutex, MutexLock and CondVar carry Clang's thread-safety annotations, so that clang reports a
// missing lock at compile time (-Wthread-safety). g++ ignores the annotations.
//
// A predicate that reads guarded fields states the lock, because clang analyses a lambda apart from
// the function around it:
//   changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return done_; });
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
#ifndef GUARDED_BY  // abseil, which gRPC's headers include, defines the same macro
#define GUARDED_BY(x) BUTTRESS_ANNOTATION(guarded_by(x))
#endif
#define REQUIRES(...) BUTTRESS_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) BUTTRESS_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) BUTTRESS_ANNOTATION(release_capability(__VA_ARGS__))
#define EXCLUDES(...) BUTTRESS_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace buttress {

// A std::mutex that the analysis knows.
class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }

  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for the lifetime of the object.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }

  ~MutexLock() RELEASE() { mutex_.Unlock(); }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex. It has no wait without a timeout.
class CondVar {
 public:
  // Releases `mutex` and waits until a notification finds that `ready()` holds, or until `timeout`
  // has passed. Returns ready(). `ready` runs with the mutex held.
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

// Asks threads to stop; a signal that is given stays given. Thread-safe.
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

  // Waits until Stop is called or `timeout` has passed. Returns stopped().
  bool WaitFor(std::chrono::milliseconds timeout) const {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return stopped_; });
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace buttress
