// A libnccl.so.2 for the device for tests: what the learner uses of NCCL, between processes of one
// machine over POSIX shared memory. Collectives run on the streams of the device, and sum in the
// order of the ranks.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/runtime.h"

namespace {

using test_device::DeviceOf;
using test_device::HostOf;
using test_device::Stream;

constexpr int kMostRanks = 8;
constexpr std::size_t kChannelBytes = 1 << 14;

// The bytes on their way from one rank to another.
struct Channel {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::array<char, kChannelBytes> ring;
};

enum Plane { kStreams, kHosts, kPlanes };

// The memory that the ranks share; it begins as zeros.
struct Segment {
  std::atomic<int> arrived;
  std::array<int, kMostRanks> devices;
  std::array<std::array<char, 64>, kMostRanks> hosts;
  std::array<std::array<std::array<Channel, kMostRanks>, kMostRanks>, kPlanes> channels;
};

std::string& LastError() {
  static std::string error;
  return error;
}

ncclResult_t Fail(ncclResult_t result, std::string why) {
  LastError() = std::move(why);
  return result;
}

void Pause() {
  constexpr timespec kRest{0, 20'000};
  ::nanosleep(&kRest, nullptr);
}

struct Transfer {
  int peer = 0;
  bool sends = false;
  char* data = nullptr;
  std::size_t bytes = 0;
  std::size_t done = 0;
};

// Moves what the channel takes or has of the transfer. Returns whether that is anything.
bool Move(Channel& channel, Transfer& transfer) {
  const std::uint64_t written = channel.written.load(std::memory_order_acquire);
  const std::uint64_t read = channel.read.load(std::memory_order_acquire);
  const std::uint64_t at = transfer.sends ? written : read;
  const std::uint64_t room = transfer.sends ? kChannelBytes - (written - read) : written - read;
  const std::size_t begin = at % kChannelBytes;
  const std::size_t bytes = std::min(
      {static_cast<std::size_t>(room), kChannelBytes - begin, transfer.bytes - transfer.done});
  if (bytes == 0) return false;
  char* const in_ring = channel.ring.data() + begin;
  char* const own = transfer.data + transfer.done;
  std::memcpy(transfer.sends ? in_ring : own, transfer.sends ? own : in_ring, bytes);
  transfer.done += bytes;
  (transfer.sends ? channel.written : channel.read).store(at + bytes, std::memory_order_release);
  return true;
}

float Widened(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t Narrowed(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Adds `parts` one after another into the first.
template <class T>
void Sum(char* parts, std::size_t count, int size) {
  T* const to = reinterpret_cast<T*>(parts);
  for (std::size_t r = 1; r < static_cast<std::size_t>(size); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, std::uint16_t>) {
        to[i] = Narrowed(Widened(to[i]) + Widened(to[r * count + i]));
      } else {
        to[i] = static_cast<T>(to[i] + to[r * count + i]);
      }
    }
  }
}

struct Type {
  std::size_t bytes;
  void (*sum)(char*, std::size_t, int);
};

Type TypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return {4, Sum<float>};
    case ncclFloat64:
      return {8, Sum<double>};
    case ncclBfloat16:
      return {2, Sum<std::uint16_t>};
    case ncclInt32:
      return {4, Sum<std::int32_t>};
    case ncclInt64:
      return {8, Sum<std::int64_t>};
    default:
      return {1, Sum<std::uint8_t>};
  }
}

}  // namespace

// Shared with the work on the streams, which may outlive the communicator.
struct Group {
  std::string name;
  int size = 0;
  int rank = 0;
  int device = 0;
  Segment* segment = nullptr;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::mutex works;  // held by work on a stream

  ~Group() {
    if (segment != nullptr) ::munmap(segment, sizeof(Segment));
  }

  // Joins the other ranks.
  void Start() {
    const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    void* memory = MAP_FAILED;
    if (file >= 0 && ::ftruncate(file, sizeof(Segment)) == 0)
      memory = ::mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) ::close(file);
    if (memory == MAP_FAILED) {
      state = Fail(ncclSystemError, "no shared memory");
      return;
    }
    segment = static_cast<Segment*>(memory);
    const char* const host = std::getenv("NCCL_HOSTID");
    const auto self = static_cast<std::size_t>(rank);
    segment->devices[self] = device;
    if (host != nullptr) std::strncpy(segment->hosts[self].data(), host, 63);
    ++segment->arrived;
    while (segment->arrived < size && !aborted) Pause();
    ::shm_unlink(name.c_str());
    for (int a = 0; a < size; ++a) {
      for (int b = 0; b < a; ++b) {
        const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
        if (segment->devices[i] != segment->devices[j] || segment->hosts[i] != segment->hosts[j])
          continue;
        state = Fail(ncclInvalidUsage, "Duplicate GPU detected: ranks " + std::to_string(b) +
                                           " and " + std::to_string(a));
        return;
      }
    }
    state = ncclSuccess;
  }

  // At most one transfer in each direction for each peer.
  void Exchange(Plane plane, std::vector<Transfer> transfers) {
    const auto self = static_cast<std::size_t>(rank);
    for (bool waits = true; waits && !aborted;) {
      bool moved = false;
      waits = false;
      for (Transfer& transfer : transfers) {
        const auto peer = static_cast<std::size_t>(transfer.peer);
        auto& channels = segment->channels[plane];
        moved |= Move(transfer.sends ? channels[self][peer] : channels[peer][self], transfer);
        waits |= transfer.done < transfer.bytes;
      }
      if (waits && !moved) Pause();
    }
  }

  // Sends `out` bytes of each peer's part, which begin `stride` after one another, and receives
  // `bytes` of each.
  void ExchangeWithAll(Plane plane, char* out, std::size_t stride, char* in, std::size_t bytes) {
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < size; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      transfers.push_back({peer, true, out + p * stride, bytes});
      transfers.push_back({peer, false, in + p * bytes, bytes});
    }
    Exchange(plane, std::move(transfers));
  }
};

struct ncclComm {
  std::shared_ptr<Group> group = std::make_shared<Group>();
  std::thread starts;  // the start or split in progress
  int splits = 0;

  ~ncclComm() {
    if (starts.joinable()) starts.join();
  }
};

namespace {

// Runs `work` on the stream, unless the communicator is aborted before.
ncclResult_t Post(ncclComm_t comm, cudaStream_t on, std::initializer_list<const void*> buffers,
                  std::function<void(Group&)> work) {
  auto* const stream = reinterpret_cast<Stream*>(on);
  const std::shared_ptr<Group> group = comm->group;
  if (group->state != ncclSuccess) return Fail(ncclInvalidUsage, "the communicator is not ready");
  for (const void* const buffer : buffers) {
    if (buffer != nullptr && DeviceOf(buffer) == group->device) continue;
    return Fail(ncclInvalidArgument, "a buffer of device " + std::to_string(DeviceOf(buffer)) +
                                         " for a rank on device " + std::to_string(group->device));
  }
  if (stream->device() != group->device)
    return Fail(ncclInvalidArgument, "a stream of another device");
  stream->Enqueue([group, work = std::move(work)] {
    const std::lock_guard lock(group->works);
    if (!group->aborted) work(*group);
  });
  return ncclSuccess;
}

struct GroupCalls {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
};

thread_local GroupCalls group_calls;

ncclResult_t PostTransfer(Transfer transfer, ncclComm_t comm, cudaStream_t stream) {
  if (DeviceOf(transfer.data) != comm->group->device)
    return Fail(ncclInvalidArgument, "a buffer of another device");
  transfer.data = static_cast<char*>(HostOf(transfer.data));
  group_calls.comm = comm;
  group_calls.stream = stream;
  group_calls.transfers.push_back(transfer);
  if (group_calls.depth > 0) return ncclSuccess;
  ncclGroupStart();
  return ncclGroupEnd();
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::string name = "/buttress-nccl-" + std::to_string(::getpid()) + "-" +
                           std::to_string(now.tv_sec) + "-" + std::to_string(now.tv_nsec);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  if (size > kMostRanks) return Fail(ncclInvalidArgument, "too many ranks");
  auto comm = std::make_unique<ncclComm>();
  comm->group->name = id.internal;
  comm->group->size = size;
  comm->group->rank = rank;
  comm->group->device = test_device::CurrentDevice();
  comm->starts = std::thread([group = comm->group] { group->Start(); });
  *out = comm.release();
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  if (comm->starts.joinable()) comm->starts.join();
  auto part = std::make_unique<ncclComm>();
  part->group->name =
      comm->group->name + "-" + std::to_string(comm->splits++) + "-" + std::to_string(color);
  part->group->device = comm->group->device;
  comm->group->state = ncclInProgress;
  comm->starts = std::thread([parent = comm->group, group = part->group, color, key] {
    struct Place {
      int color, key, rank;
    };
    std::array<Place, kMostRanks> places{};
    Place own{color, key, parent->rank};
    parent->ExchangeWithAll(kHosts, reinterpret_cast<char*>(&own), 0,
                            reinterpret_cast<char*>(places.data()), sizeof own);
    for (int r = 0; r < parent->size; ++r) {
      const Place& place = places[static_cast<std::size_t>(r)];
      if (place.color != color) continue;
      ++group->size;
      if (std::pair(place.key, place.rank) < std::pair(key, parent->rank)) ++group->rank;
    }
    if (!parent->aborted) group->Start();
    parent->state = ncclSuccess;
  });
  *out = part.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->group->state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->group->aborted = true;
  { const std::lock_guard until_work_ends(comm->group->works); }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  *size = comm->group->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->group->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "error";
}

const char* ncclGetLastError(ncclComm_t) { return LastError().c_str(); }

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return Post(comm, stream, {in, out}, [=, t = TypeOf(type)](Group& group) {
    std::vector<char> all(static_cast<std::size_t>(group.size) * count * t.bytes);
    group.ExchangeWithAll(kStreams, static_cast<char*>(HostOf(in)), 0, all.data(), count * t.bytes);
    t.sum(all.data(), count, group.size);
    std::memcpy(HostOf(out), all.data(), count * t.bytes);
  });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return Post(comm, stream, {in, out}, [=, t = TypeOf(type)](Group& group) {
    std::vector<char> all(static_cast<std::size_t>(group.size) * count * t.bytes);
    group.ExchangeWithAll(kStreams, static_cast<char*>(HostOf(in)), count * t.bytes, all.data(),
                          count * t.bytes);
    t.sum(all.data(), count, group.size);
    std::memcpy(HostOf(out), all.data(), count * t.bytes);
  });
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Post(comm, stream, {in, out}, [=, bytes = count * TypeOf(type).bytes](Group& group) {
    group.ExchangeWithAll(kStreams, static_cast<char*>(HostOf(in)), 0,
                          static_cast<char*>(HostOf(out)), bytes);
  });
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return Post(comm, stream, {in, out}, [=, bytes = count * TypeOf(type).bytes](Group& group) {
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < group.size && group.rank == root; ++peer)
      transfers.push_back({peer, true, static_cast<char*>(HostOf(in)), bytes});
    transfers.push_back({root, false, static_cast<char*>(HostOf(out)), bytes});
    group.Exchange(kStreams, std::move(transfers));
  });
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  auto* const bytes = static_cast<char*>(const_cast<void*>(data));
  return PostTransfer({peer, true, bytes, count * TypeOf(type).bytes}, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  auto* const bytes = static_cast<char*>(data);
  return PostTransfer({peer, false, bytes, count * TypeOf(type).bytes}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group_calls.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_calls.depth > 0 || group_calls.transfers.empty()) return ncclSuccess;
  return Post(group_calls.comm, group_calls.stream, {},
              [transfers = std::exchange(group_calls.transfers, {})](Group& group) {
                group.Exchange(kStreams, transfers);
              });
}

}  // extern "C"
