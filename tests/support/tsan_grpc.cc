// Shows ThreadSanitizer what gRPC synchronises.
//
// gRPC hands requests from thread to thread under the mutexes of abseil, which wait with futexes
// inside a library that is not instrumented, so that every hand-over would look like a race. These
// functions stand before those of the library. They call them, and tell ThreadSanitizer that all
// these mutexes are one: gRPC also hands over through queues without a lock, and a thread that
// takes from one has soon taken a mutex. What two threads do between two calls of gRPC is still
// compared.
#include <absl/synchronization/mutex.h>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

namespace {

// Stands for all mutexes of abseil.
char every_mutex;

void Acquired() { __tsan_acquire(&every_mutex); }

void WillRelease() { __tsan_release(&every_mutex); }

// Returns the function of the library that the one of this file hides.
template <class F>
F* Hidden(const char* symbol) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, symbol));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto lock = Hidden<void(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  lock(this);
  Acquired();
}

bool Mutex::TryLock() {
  static const auto try_lock = Hidden<bool(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  const bool locked = try_lock(this);
  if (locked) Acquired();
  return locked;
}

void Mutex::Unlock() {
  static const auto unlock = Hidden<void(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  WillRelease();
  unlock(this);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto wait =
      Hidden<void(CondVar*, Mutex*)>("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE");
  WillRelease();
  wait(this, mutex);
  Acquired();
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto wait = Hidden<bool(CondVar*, Mutex*, Duration)>(
      "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  WillRelease();
  const bool late = wait(this, mutex, timeout);
  Acquired();
  return late;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto wait = Hidden<bool(CondVar*, Mutex*, Time)>(
      "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  WillRelease();
  const bool late = wait(this, mutex, deadline);
  Acquired();
  return late;
}

ABSL_NAMESPACE_END
}  // namespace absl
