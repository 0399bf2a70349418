// The MPI back end. Every operation is nonblocking and polled until its deadline, so that a dead
// rank causes an error instead of a hang.
#include <fmt/core.h>
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "lib/collectives/collective.h"

namespace buttress {
namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Set when a rank is missing. MPI must not be called afterwards, not even MPI_Finalize, which would
// wait for that rank.
std::atomic<bool> broken{false};
MPI_Op sum_bfloat16 = MPI_OP_NULL;

Status FromMpi(int error, const char* what) {
  if (error == MPI_SUCCESS) return OkStatus();
  broken = true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return Unavailable(
      fmt::format("MPI {}: {}", what, std::string_view(text, static_cast<std::size_t>(length))));
}

float BFloat16ToFloat(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Rounds to nearest, ties to even, as torch does.
std::uint16_t FloatToBFloat16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // NaN stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// MPI has no bfloat16, so elements are sent as 2-byte words. Each pair is added in float32 and
// rounded once, so that a sum over R ranks is rounded at most R - 1 times.
void SumBFloat16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint16_t*>(in);
  auto* b = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *count; ++i)
    b[i] = FloatToBFloat16(BFloat16ToFloat(a[i]) + BFloat16ToFloat(b[i]));
}

MPI_Datatype TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kBFloat16:
      return MPI_UINT16_T;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kUInt8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

// The pause between two polls. Open MPI makes progress only inside its calls and has no wait with a
// deadline. The pauses grow, so that a rank that waits for long leaves its core to others.
class GrowingPause {
 public:
  void Pause() {
    constexpr int kYields = 64;
    constexpr long kFirstNs = 20'000;
    constexpr long kLastNs = 500'000;
    if (yields_++ < kYields) {
      ::sched_yield();
      return;
    }
    rest_ns_ = rest_ns_ == 0 ? kFirstNs : std::min(kLastNs, rest_ns_ + rest_ns_ / 4);
    const timespec rest{0, rest_ns_};
    ::nanosleep(&rest, nullptr);
  }

 private:
  int yields_ = 0;
  long rest_ns_ = 0;
};

class MpiWork : public Work {
 public:
  MpiWork(MPI_Request request, const char* what, const Liveness* liveness)
      : request_(request), what_(what), liveness_(liveness) {}

  Status Wait(Milliseconds timeout) override {
    const auto started = SteadyClock::now();
    const std::string call = fmt::format("MPI {}", what_);
    GrowingPause pause;
    for (;;) {
      if (broken) return Aborted(fmt::format("MPI {}: the group was aborted", what_));
      int done = 0;
      BUTTRESS_RETURN_IF_ERROR(FromMpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), what_));
      if (done != 0) return OkStatus();
      const auto waited = std::chrono::duration_cast<Milliseconds>(SteadyClock::now() - started);
      if (Status status = MayWait(liveness_, call, waited, timeout); !status.ok()) {
        broken = true;
        return status;
      }
      pause.Pause();
    }
  }

 private:
  MPI_Request request_;
  const char* what_;
  const Liveness* liveness_;
};

class MpiCollective : public Collective {
 public:
  MpiCollective(MPI_Comm comm, bool owned, Milliseconds timeout)
      : comm_(comm), owned_(owned), timeout_(timeout) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  ~MpiCollective() override {
    if (owned_ && !broken) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }

  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduceSum(Buffer inout) override {
    return Post("all-reduce", {inout}, [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, inout.data, Count(inout), TypeOf(inout.dtype),
                            Sum(inout.dtype), comm_, request);
    });
  }

  std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) override {
    if (in.count != out.count * size_ || in.dtype != out.dtype) {
      return CompletedWork(
          InvalidArgument("reduce-scatter: in.count must be out.count * size, of one dtype"));
    }
    return Post("reduce-scatter", {in, out}, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(in.data, out.data, Count(out), TypeOf(in.dtype),
                                       Sum(in.dtype), comm_, request);
    });
  }

  std::unique_ptr<Work> AllGather(Buffer in, Buffer out) override {
    if (out.count != in.count * size_ || in.dtype != out.dtype) {
      return CompletedWork(
          InvalidArgument("all-gather: out.count must be in.count * size, of one dtype"));
    }
    return Post("all-gather", {in, out}, [&](MPI_Request* request) {
      const MPI_Datatype type = TypeOf(in.dtype);
      const auto* own = static_cast<char*>(out.data) + rank_ * in.count * SizeOf(in.dtype);
      const void* from = in.data == own ? MPI_IN_PLACE : in.data;
      return MPI_Iallgather(from, Count(in), type, out.data, Count(in), type, comm_, request);
    });
  }

  std::unique_ptr<Work> AllToAll(Buffer in, Buffer out) override {
    if (in.count != out.count || in.count % size_ != 0 || in.dtype != out.dtype) {
      return CompletedWork(InvalidArgument(
          "all-to-all: in.count and out.count must be equal multiples of size, of one dtype"));
    }
    return Post("all-to-all", {in, out}, [&](MPI_Request* request) {
      const MPI_Datatype type = TypeOf(in.dtype);
      const int part = Count(in) / size_;
      return MPI_Ialltoall(in.data, part, type, out.data, part, type, comm_, request);
    });
  }

  std::unique_ptr<Work> Broadcast(Buffer inout, int root) override {
    if (root < 0 || root >= size_)
      return CompletedWork(
          InvalidArgument(fmt::format("broadcast from rank {} of {}", root, size_)));
    return Post("broadcast", {inout}, [&](MPI_Request* request) {
      return MPI_Ibcast(inout.data, Count(inout), TypeOf(inout.dtype), root, comm_, request);
    });
  }

  Status Barrier() override {
    return Post("barrier", {}, [&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); })
        ->Wait(timeout_);
  }

  Result<std::unique_ptr<Collective>> Split(int color, int key) override {
    // MPI_Comm_split has no nonblocking form. After the barrier every rank is about to call it.
    BUTTRESS_RETURN_IF_ERROR(Barrier());
    MPI_Comm part = MPI_COMM_NULL;
    BUTTRESS_RETURN_IF_ERROR(FromMpi(MPI_Comm_split(comm_, color, key, &part), "split"));
    auto split = std::make_unique<MpiCollective>(part, true, timeout_);
    split->Watch(liveness());
    return std::unique_ptr<Collective>(std::move(split));
  }

  // MPI cannot cancel a collective. This process stops calling MPI; when it exits without
  // MPI_Finalize, mpirun ends the other ranks.
  void Abort() override { broken = true; }

 private:
  static int Count(const Buffer& buffer) { return static_cast<int>(buffer.count); }

  static MPI_Op Sum(DType dtype) { return dtype == DType::kBFloat16 ? sum_bfloat16 : MPI_SUM; }

  template <class Call>
  std::unique_ptr<Work> Post(const char* what, std::initializer_list<Buffer> buffers, Call call) {
    if (broken) return CompletedWork(Aborted(fmt::format("MPI {}: the group was aborted", what)));
    for (const Buffer& buffer : buffers) {
      if (buffer.device != DeviceKind::kCpu)
        return CompletedWork(InvalidArgument("collective mpi: buffers must be in CPU memory"));
      if (buffer.count < 0 || buffer.count > std::numeric_limits<int>::max()) {
        return CompletedWork(InvalidArgument(
            fmt::format("collective mpi: {} elements; the limit is 2^31 - 1", buffer.count)));
      }
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const Status status = FromMpi(call(&request), what);
    if (!status.ok()) return CompletedWork(status);
    return std::make_unique<MpiWork>(request, what, liveness());
  }

  MPI_Comm comm_;
  bool owned_;
  Milliseconds timeout_;
  int rank_ = 0;
  int size_ = 0;
};

void FinalizeAtExit() {
  if (!broken) MPI_Finalize();
}

}  // namespace

Result<std::unique_ptr<Collective>> MakeMpiCollective(Milliseconds timeout) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  BUTTRESS_CHECK(initialised == 0, "MakeMpiCollective must be called once a process");
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    return Unavailable(
        "MPI_Init_thread does not provide MPI_THREAD_FUNNELED; check the installation of Open MPI");
  }
  std::atexit(FinalizeAtExit);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  constexpr int kCommutes = 1;
  BUTTRESS_RETURN_IF_ERROR(
      FromMpi(MPI_Op_create(SumBFloat16, kCommutes, &sum_bfloat16), "operation for bfloat16"));
  return std::unique_ptr<Collective>(
      std::make_unique<MpiCollective>(MPI_COMM_WORLD, false, timeout));
}

}  // namespace buttress
