// Collective communication between the ranks of a learner. One interface has three back ends: local
// (one rank), MPI (CPU memory) and NCCL (GPU memory, in libbuttress_cuda.so).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/collectives/liveness.h"

namespace buttress {

enum class DType : std::uint8_t { kFloat32, kFloat64, kBFloat16, kInt32, kInt64, kUInt8 };

// Returns the bytes of one element.
std::int64_t SizeOf(DType dtype);

enum class DeviceKind : std::uint8_t { kCpu, kDevice };

// Memory that the caller owns.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  DType dtype = DType::kFloat32;
  DeviceKind device = DeviceKind::kCpu;
};

// A collective in progress. The caller calls Wait or Join, once, and keeps the buffers until then.
class Work {
 public:
  virtual ~Work() = default;

  // Waits until the collective is complete. kDeadlineExceeded after `timeout`, which means that
  // another rank is dead or stuck; kAborted if the group was aborted. In a group that is watched
  // (Collective::Watch), Liveness decides instead of `timeout`.
  virtual Status Wait(std::chrono::milliseconds timeout) = 0;

  // Takes the place of Wait where the result is used on the device of the buffers only: what the
  // caller's current stream gets from now on runs after the collective, and the host continues. If
  // the collective then takes longer than Wait allows, or fails, the group is aborted, which lets
  // the stream go on with undefined values, and the next call on the group returns the error. On
  // CPUs it is Wait.
  virtual Status Join(std::chrono::milliseconds timeout) { return Wait(timeout); }
};

// Returns a collective that is complete; its Wait returns `status`.
std::unique_ptr<Work> CompletedWork(Status status);

// kInvalidArgument unless the counts of an all-to-all of `size` ranks fit its buffers.
Status CheckExchange(const Buffer& in, const std::vector<std::int64_t>& sent, const Buffer& out,
                     const std::vector<std::int64_t>& received, int size);

// A group of ranks. Every rank makes the same calls in the same order, those of Wait and Join
// included, with equal counts and dtypes. On CPUs a sum is made from rank 0 upwards, that of
// bfloat16 in float32 and rounded once, so that AllReduceSum and ReduceScatterSum give equal bits.
// After an error other than kInvalidArgument the group is broken: the caller aborts it and
// exits. A group that is destroyed without End is aborted where the back end has an abort of its
// own (NCCL). Not thread-safe, except for Abort.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces the buffer of every rank with the sum over ranks.
  virtual std::unique_ptr<Work> AllReduceSum(Buffer inout) = 0;

  // Gives rank r part r of the sum over ranks. REQUIRES: in.count == out.count * size().
  virtual std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) = 0;

  // Concatenates the buffers of all ranks in rank order. `in` may be its place in `out`. REQUIRES:
  // out.count == in.count * size().
  virtual std::unique_ptr<Work> AllGather(Buffer in, Buffer out) = 0;

  // Gives part r of `in`, the next sent[r] elements, to rank r, and fills `out` with what the ranks
  // give, in rank order, received[r] elements of rank r. REQUIRES: the counts of a buffer sum to
  // its own, and what a rank sends is what the other receives.
  virtual std::unique_ptr<Work> AllToAll(Buffer in, const std::vector<std::int64_t>& sent,
                                         Buffer out, const std::vector<std::int64_t>& received) = 0;

  // The same with equal parts. REQUIRES: in.count == out.count, a multiple of size().
  std::unique_ptr<Work> AllToAll(Buffer in, Buffer out);

  // Replaces the buffer of every rank with that of `root`.
  virtual std::unique_ptr<Work> Broadcast(Buffer inout, int root) = 0;

  // Returns when every rank has called it.
  virtual Status Barrier() = 0;

  // Forms a new group from the ranks that pass the same `color`, ordered by `key`.
  virtual Result<std::unique_ptr<Collective>> Split(int color, int key) = 0;

  // The last call: returns when every rank has made it, and releases the group.
  virtual Status End() { return Barrier(); }

  // Ends all collectives in progress on this rank, and on the others as far as the back end can.
  // Thread-safe.
  virtual void Abort() = 0;

  // Lets `liveness`, which must outlive the group, decide how long later calls wait.
  void Watch(const Liveness* liveness) { liveness_ = liveness; }

 protected:
  const Liveness* liveness() const { return liveness_; }

 private:
  const Liveness* liveness_ = nullptr;
};

// Whether a call `what` that has waited for `waited` may wait on: as `liveness` says, or without
// one until `timeout`.
inline Status MayWait(const Liveness* liveness, const std::string& what,
                      std::chrono::milliseconds waited, std::chrono::milliseconds timeout) {
  if (liveness != nullptr) return liveness->MayWait(what, waited);
  if (waited < timeout) return OkStatus();
  return DeadlineExceeded(what + ": not done after " + std::to_string(timeout.count()) +
                          " ms; another rank is dead or stuck");
}

// A group of one rank, for runs that are configured with one. Never a fallback for another back
// end.
std::unique_ptr<Collective> MakeLocalCollective();

// The world of MPI. Initialises MPI, which is finalised at exit; called once a process. `timeout`
// bounds Barrier and Split.
Result<std::unique_ptr<Collective>> MakeMpiCollective(std::chrono::milliseconds timeout);

// NCCL over the ranks of `bootstrap`, on GPU `device` of this process. Every rank calls it.
// `bootstrap` broadcasts the unique id and must outlive the result. `timeout` bounds the start,
// Barrier and Split. kFailedPrecondition if a rank cannot use CUDA.
Result<std::unique_ptr<Collective>> MakeNcclCollective(Collective& bootstrap, int device,
                                                       std::chrono::milliseconds timeout);

// Returns the `bytes` of rank `root` on every rank. Ranks may pass strings of different sizes.
Result<std::string> BroadcastBytes(Collective& collective, std::string bytes, int root,
                                   std::chrono::milliseconds timeout);

}  // namespace buttress
