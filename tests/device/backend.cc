// Registers the device for tests with LibTorch as its PrivateUse1: memory, streams, events and
// pinned memory of the host.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/device/runtime.h"

namespace test_device {
namespace {

c10::Device DeviceAt(int index) {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

int IndexOf(c10::Device device) { return device.has_index() ? device.index() : CurrentDevice(); }

Stream& StreamBehind(const c10::Stream& stream) {
  return StreamOf(stream.device_index(), stream.id());
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  bool initialized() override { return true; }

  // What a test reads in the log of a program.
  void emptyCache(c10::MempoolId_t) override {
    std::fputs("test device: free memory goes back\n", stderr);
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    UseOnStream(data.get(), StreamBehind(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }

  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void resetPeakStats(c10::DeviceIndex) override {}

  c10::DataPtr allocate(std::size_t bytes) override {
    const int device = CurrentDevice();
    void* const address = Allocate(device, bytes);
    return {address, address, &Free, DeviceAt(device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const int device = DeviceOf(to);
    StreamOf(device, CurrentStream(device)).Enqueue([to = HostOf(to), from = HostOf(from), bytes] {
      std::memcpy(to, from, bytes);
    });
  }
};

// Memory of the host that the device may read and write late.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes == 0 ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    const std::lock_guard lock(mutex_);
    if (data != nullptr) blocks_[data] = bytes;
    return {data, data, &Release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool Contains(const void* data) {
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(const_cast<void*>(data));
    if (after == blocks_.begin()) return false;
    --after;
    return static_cast<const char*>(data) < static_cast<char*>(after->first) + after->second;
  }

 private:
  static void Release(void* data);

  std::mutex mutex_;
  std::map<void*, std::size_t> blocks_;
};

PinnedMemory& Pinned() {
  static PinnedMemory* const pinned = new PinnedMemory;
  return *pinned;
}

void PinnedMemory::Release(void* data) {
  const std::lock_guard lock(Pinned().mutex_);
  Pinned().blocks_.erase(data);
  std::free(data);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    SetCurrentDevice(IndexOf(device));
    return before;
  }

  c10::Device getDevice() const override { return DeviceAt(CurrentDevice()); }

  void setDevice(c10::Device device) const override { SetCurrentDevice(IndexOf(device)); }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    SetCurrentDevice(IndexOf(device));
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(DeviceCount());
  }

  c10::Stream getStream(c10::Device device) const override {
    return At(device, CurrentStream(IndexOf(device)));
  }

  c10::Stream getDefaultStream(c10::Device device) const override { return At(device, 0); }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return At(device, NextPoolStream(IndexOf(device)));
  }

  c10::Stream getNewStream(c10::Device device, int) const override {
    return At(device, NextPoolStream(IndexOf(device)));
  }

  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    SetCurrentStream(stream.device_index(), stream.id());
    return before;
  }

  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &StreamBehind(stream);
  }

  bool queryStream(const c10::Stream& stream) const override {
    Stream& behind = StreamBehind(stream);
    return behind.Reached(behind.last());
  }

  void synchronizeStream(const c10::Stream& stream) const override {
    CountHostWait(HostWait::kStream);
    StreamBehind(stream).Synchronize();
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    CountHostWait(HostWait::kDevice);
    SynchronizeDevice(device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of device ",
                static_cast<int>(device), " is recorded in ", stream);
    if (*event == nullptr) *event = new Mark;
    *static_cast<Mark*>(*event) = Record(StreamBehind(stream));
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) WaitOnStream(StreamBehind(stream), *static_cast<Mark*>(event));
  }

  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const Mark& mark = *static_cast<Mark*>(event);
    return mark.stream->Reached(mark.number);
  }

  void synchronizeEvent(void* event) const override {
    CountHostWait(HostWait::kEvent);
    if (event != nullptr) Reach(event);
  }

  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(Reach(second) - Reach(first)).count();
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Mark*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    UseOnStream(data.get(), StreamBehind(stream));
  }

 private:
  // Waits for a recorded event, and returns when the stream got there.
  static std::chrono::steady_clock::time_point Reach(void* event) {
    const Mark& mark = *static_cast<Mark*>(event);
    mark.stream->Wait(mark.number);
    return *mark.time;
  }

  static c10::Stream At(c10::Device device, std::int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, DeviceAt(IndexOf(device)), id);
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }

  bool isAvailable() const override { return true; }

  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(DeviceCount());
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(CurrentDevice());
  }

  void setCurrentDevice(c10::DeviceIndex device) const override { SetCurrentDevice(device); }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    SetCurrentDevice(device);
    return before;
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? getCurrentDevice() : exchangeDevice(device);
  }

  at::Device getDeviceFromPtr(void* data) const override { return DeviceAt(DeviceOf(data)); }

  bool isPinnedPtr(const void* data) const override { return Pinned().Contains(data); }

  c10::Allocator* getPinnedMemoryAllocator() const override { return &Pinned(); }
};

bool Register() {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, new DeviceMemory);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("testdevice");
  return true;
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
[[maybe_unused]] const bool registered = Register();

}  // namespace
}  // namespace test_device
