#include "tests/device/runtime.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace test_device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostDevices = 8;
constexpr std::size_t kDeviceBytes = std::size_t{1} << 32;  // of addresses; pages come with use
constexpr std::size_t kSmallestBlock = 512;
constexpr int kPoison = 0xFF;

thread_local int current_device = 0;
thread_local std::array<std::int64_t, kMostDevices> current_streams{};

struct Block {
  int device;
  std::int64_t stream;
  std::size_t bytes;
  std::vector<Stream*> users;
};

char* Reserve(int protection) {
  void* const base = ::mmap(nullptr, kMostDevices * kDeviceBytes, protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::runtime_error("test device: cannot reserve addresses");
  return static_cast<char*>(base);
}

// Never destroyed, because threads work until the process has ended.
struct Devices {
  char* const addresses = Reserve(PROT_NONE);
  char* const bytes = Reserve(PROT_READ | PROT_WRITE);
  std::vector<std::vector<std::unique_ptr<Stream>>> streams;
  std::array<std::atomic<std::int64_t>, kMostDevices> next_stream{};
  std::mutex mutex;
  std::array<std::size_t, kMostDevices> used{};
  std::map<void*, Block> blocks;
  std::map<std::pair<std::int64_t, std::size_t>, std::vector<void*>> free;  // by stream and bytes

  Devices() {
    for (int device = 0; device < DeviceCount(); ++device) {
      auto& own = streams.emplace_back();
      for (int i = 0; i <= kPoolStreams; ++i) own.push_back(std::make_unique<Stream>(device));
    }
  }
};

Devices& All() {
  static Devices* const devices = new Devices;
  return *devices;
}

void Poison(Stream& stream, void* address, std::size_t bytes) {
  void* const host = HostOf(address);
  stream.Enqueue([host, bytes] { std::memset(host, kPoison, bytes); });
}

}  // namespace

struct Stream::State {
  struct Item {
    std::function<void()> work;
    Clock::time_point since;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  std::uint64_t given = 0;
  std::uint64_t wanted = 0;
  std::uint64_t done = 0;
  std::exception_ptr error;

  void Check() const {
    if (error) std::rethrow_exception(error);
  }
};

Stream::Stream(int device) : device_(device), state_(std::make_shared<State>()) {
  std::thread(Work, state_).detach();
}

void Stream::Work(std::shared_ptr<State> state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    if (state->items.empty()) {
      state->changed.wait(lock);
      continue;
    }
    const auto starts = state->items.front().since + kLag;
    if (state->wanted <= state->done && Clock::now() < starts) {
      state->changed.wait_until(lock, starts);
      continue;
    }
    std::function<void()> work = std::move(state->items.front().work);
    state->items.pop_front();
    std::exception_ptr error = state->error;
    lock.unlock();
    try {
      if (!error) work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;
    lock.lock();
    state->error = error;
    ++state->done;
    state->changed.notify_all();
  }
}

std::uint64_t Stream::Enqueue(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  state_->Check();
  state_->items.push_back({std::move(work), Clock::now()});
  state_->changed.notify_all();
  return ++state_->given;
}

std::uint64_t Stream::last() const {
  const std::lock_guard lock(state_->mutex);
  return state_->given;
}

bool Stream::Reached(std::uint64_t number) {
  const std::lock_guard lock(state_->mutex);
  state_->Check();
  state_->wanted = std::max(state_->wanted, number);
  state_->changed.notify_all();
  return state_->done >= number;
}

void Stream::Wait(std::uint64_t number) {
  std::unique_lock lock(state_->mutex);
  state_->wanted = std::max(state_->wanted, number);
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->done >= number; });
  state_->Check();
}

Mark Record(Stream& stream) {
  auto time = std::make_shared<Clock::time_point>();
  const std::uint64_t number = stream.Enqueue([time] { *time = Clock::now(); });
  return {&stream, number, std::move(time)};
}

void WaitOnStream(Stream& stream, const Mark& mark) {
  if (mark.stream == nullptr || mark.stream == &stream) return;
  stream.Enqueue([mark] { mark.stream->Wait(mark.number); });
}

int DeviceCount() {
  static const int count = [] {
    const char* const text = std::getenv("FAKE_GPUS");
    return std::min(kMostDevices, text == nullptr ? 2 : std::atoi(text));
  }();
  return count;
}

int CurrentDevice() { return current_device; }

void SetCurrentDevice(int device) {
  if (device < 0 || device >= DeviceCount())
    throw std::runtime_error("test device: there is no device " + std::to_string(device));
  current_device = device;
}

Stream& StreamOf(int device, std::int64_t id) {
  return *All().streams.at(static_cast<std::size_t>(device)).at(static_cast<std::size_t>(id));
}

std::int64_t NextPoolStream(int device) {
  return 1 + All().next_stream.at(static_cast<std::size_t>(device))++ % kPoolStreams;
}

std::int64_t CurrentStream(int device) {
  return current_streams.at(static_cast<std::size_t>(device));
}

void SetCurrentStream(int device, std::int64_t id) {
  current_streams.at(static_cast<std::size_t>(device)) = id;
}

void SynchronizeDevice(int device) {
  for (const auto& stream : All().streams.at(static_cast<std::size_t>(device)))
    stream->Synchronize();
}

void* Allocate(int device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Devices& all = All();
  const std::size_t size = std::max(kSmallestBlock, std::bit_ceil(bytes));
  const std::int64_t id = CurrentStream(device);
  const std::lock_guard lock(all.mutex);
  auto& free = all.free[{device * (kPoolStreams + 1) + id, size}];
  void* address = nullptr;
  if (!free.empty()) {
    address = free.back();
    free.pop_back();
  } else {
    std::size_t& used = all.used.at(static_cast<std::size_t>(device));
    if (used + size > kDeviceBytes) throw std::runtime_error("test device: out of memory");
    address = all.addresses + static_cast<std::size_t>(device) * kDeviceBytes + used;
    used += size;
    Poison(StreamOf(device, id), address, size);
  }
  all.blocks[address] = {device, id, size, {}};
  return address;
}

void Free(void* address) {
  if (address == nullptr) return;
  Devices& all = All();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(address);
  const Block block = std::move(found->second);
  all.blocks.erase(found);
  Stream& stream = StreamOf(block.device, block.stream);
  try {
    for (Stream* const user : block.users) WaitOnStream(stream, Record(*user));
    Poison(stream, address, block.bytes);
  } catch (...) {
    return;  // the stream has failed; the next call that may throw throws it
  }
  all.free[{block.device * (kPoolStreams + 1) + block.stream, block.bytes}].push_back(address);
}

void UseOnStream(void* address, Stream& stream) {
  Devices& all = All();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(address);
  if (found != all.blocks.end()) found->second.users.push_back(&stream);
}

int DeviceOf(const void* address) {
  const std::ptrdiff_t offset = static_cast<const char*>(address) - All().addresses;
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(kMostDevices * kDeviceBytes)) return -1;
  return static_cast<int>(static_cast<std::size_t>(offset) / kDeviceBytes);
}

void* HostOf(const void* address) {
  if (address == nullptr) return nullptr;
  if (DeviceOf(address) < 0)
    throw std::runtime_error("test device: a kernel was given an address of the host");
  return All().bytes + (static_cast<const char*>(address) - All().addresses);
}

namespace {

constexpr std::array kWaitNames = {"stream", "event", "device", "copy", "scalar", "shape"};
static_assert(kWaitNames.size() == static_cast<std::size_t>(HostWait::kCount));
std::array<std::atomic<std::int64_t>, kWaitNames.size()> host_waits{};

}  // namespace

void CountHostWait(HostWait kind) { ++host_waits.at(static_cast<std::size_t>(kind)); }

std::string TakeHostWaits() {
  std::string text;
  for (std::size_t i = 0; i < kWaitNames.size(); ++i) {
    const std::int64_t count = host_waits[i].exchange(0);
    if (count == 0) continue;
    text += (text.empty() ? "" : " ") + std::string(kWaitNames[i]) + " " + std::to_string(count);
  }
  return text.empty() ? "none" : text;
}

}  // namespace test_device

extern "C" const char* test_device_take_host_waits() {
  static std::string text;
  text = test_device::TakeHostWaits();
  return text.c_str();
}
