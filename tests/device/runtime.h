// The memory and the streams of a device for tests: what the CUDA runtime is to a GPU.
//
// An address on the device is one that the host can never read or write (PROT_NONE); kernels find
// the bytes behind it with HostOf. A stream is a thread with a queue, which works as late as it
// may: when something waits for it, or after kLag. What forgets to wait therefore reads old bytes.
// Freed memory is filled with 0xFF (NaN, -1) in the order of its stream. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace test_device {

// Work that nothing waits for starts so long after it was enqueued, because other processes may
// wait for it (a collective).
inline constexpr std::chrono::milliseconds kLag{25};

class Stream {
 public:
  explicit Stream(int device);

  int device() const { return device_; }

  // Appends work and returns its number. What the work throws ends the stream, like an error of a
  // kernel: this and all later calls throw it on the host.
  std::uint64_t Enqueue(std::function<void()> work);

  // The number of the last work.
  std::uint64_t last() const;

  // Whether work `number` is done; makes the stream work up to there.
  bool Reached(std::uint64_t number);

  // Waits until work `number` is done.
  void Wait(std::uint64_t number);

  void Synchronize() { Wait(last()); }

 private:
  struct State;
  static void Work(std::shared_ptr<State> state);

  const int device_;
  std::shared_ptr<State> state_;
};

// A place in a stream.
struct Mark {
  Stream* stream = nullptr;
  std::uint64_t number = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;  // when the stream got there
};

Mark Record(Stream& stream);

// What `stream` gets from now on runs after the mark.
void WaitOnStream(Stream& stream, const Mark& mark);

// As many as the fake driver shows: FAKE_GPUS, or 2.
int DeviceCount();

// The device of the calling thread.
int CurrentDevice();
void SetCurrentDevice(int device);

// Stream `id` of a device: 0 is the default one, 1 to kPoolStreams are handed out in turn.
inline constexpr int kPoolStreams = 8;
Stream& StreamOf(int device, std::int64_t id);
std::int64_t NextPoolStream(int device);

// The current stream of the calling thread on a device.
std::int64_t CurrentStream(int device);
void SetCurrentStream(int device, std::int64_t id);
void SynchronizeDevice(int device);

// Memory in the order of the current stream of `device`: free memory is given out again on the
// stream that it was allocated on, without a wait.
void* Allocate(int device, std::size_t bytes);
void Free(void* address);

// Lets the memory be freed only after what `stream` has been given by the time it is freed.
void UseOnStream(void* address, Stream& stream);

// The device of an address, or -1.
int DeviceOf(const void* address);

// The bytes behind an address on the device, for what runs on a stream; null for null.
void* HostOf(const void* address);

// What makes the host wait for the device. Its questions whether an event is reached do not.
enum class HostWait { kStream, kEvent, kDevice, kCopy, kScalar, kShape, kCount };

void CountHostWait(HostWait kind);

// Returns the waits of all threads since the last call: "event 1 copy 2", or "none".
std::string TakeHostWaits();

}  // namespace test_device

// TakeHostWaits for a program that is not linked with the device; valid until the next call.
extern "C" const char* test_device_take_host_waits();
