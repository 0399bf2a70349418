// Sums over ranks. One interface, three back ends: local (one rank), MPI (CPUs), NCCL (GPUs, in
// libbuttress_cuda.so).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/status.h"

namespace buttress {

enum class DType : std::uint8_t { kFloat32, kFloat64, kBFloat16, kInt32, kInt64, kUInt8 };

std::int64_t SizeOf(DType dtype);

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  DType dtype = DType::kFloat32;
  DeviceKind device = DeviceKind::kCpu;
};

// A collective under way. Wait exactly once; the buffers must live until then.
class Work {
 public:
  virtual ~Work() = default;

  // kDeadlineExceeded if it is not done in `timeout`: a rank is dead or stuck.
  virtual Status Wait(std::chrono::milliseconds timeout) = 0;
};

// Contract: every rank makes the same calls in the same order with equal count and dtype. Not
// thread-safe. After any non-OK Status the group is broken: Abort() it and exit; never call again.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<Work> AllReduceSum(Buffer inout) = 0;
  virtual std::unique_ptr<Work> ReduceScatterSum(Buffer in,
                                                 Buffer out) = 0;  // in.count == out.count * size()
  virtual std::unique_ptr<Work> AllGather(Buffer in,
                                          Buffer out) = 0;  // out.count == in.count * size()
  virtual std::unique_ptr<Work> Broadcast(Buffer inout, int root) = 0;
  virtual Status Barrier() = 0;

  // Ranks of equal `color` form a group of their own, ordered by `key`.
  virtual Result<std::unique_ptr<Collective>> Split(int color, int key) = 0;

  // Ends everything that is under way, here and on the other ranks as far as the back end can. Safe
  // to call from any thread.
  virtual void Abort() = 0;
};

// One rank: copies. Never a silent stand-in for a group that could not be formed.
std::unique_ptr<Collective> MakeLocalCollective();

// MPI's world. Initialises MPI on first use (finalised at exit); one call a process. `timeout`
// bounds Barrier and Split.
Result<std::unique_ptr<Collective>> MakeMpiCollective(std::chrono::milliseconds timeout);

// NCCL over the ranks of `bootstrap`, which broadcasts the unique id and must outlive it. Opens
// libbuttress_cuda.so. Where no GPU is visible: kFailedPrecondition "no CUDA device is visible to
// rank 0; use collective: mpi, or check nvidia-smi".
Result<std::unique_ptr<Collective>> MakeNcclCollective(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout);

// Broadcasts a byte string of any size from `root`: its length, then its bytes.
Result<std::string> BroadcastBytes(Collective& collective, std::string bytes, int root,
                                   std::chrono::milliseconds timeout);

}  // namespace buttress
