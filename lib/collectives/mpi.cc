// The MPI back end. Every operation is nonblocking and polled until its deadline, so that a dead
// rank causes an error instead of a hang. MPI moves bytes only: sums are made here in rank order,
// so that they depend neither on the algorithm that MPI picks nor on where an element lies.
#include <fmt/core.h>
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/collectives/collective.h"

namespace buttress {
namespace {

using Milliseconds = std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Set when a rank is missing. MPI must not be called afterwards, not even MPI_Finalize, which would
// wait for that rank.
std::atomic<bool> broken{false};

// Smaller collectives are done when the rank gets to wait for them.
constexpr std::int64_t kLargeBytes = 256 << 10;

Status FromMpi(int error, const char* what) {
  if (error == MPI_SUCCESS) return OkStatus();
  broken = true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return Unavailable(
      fmt::format("MPI {}: {}", what, std::string_view(text, static_cast<std::size_t>(length))));
}

// MPI has no bfloat16, so elements are sent as 2-byte words.
struct BFloat16 {
  BFloat16() = default;

  // Rounds to nearest, ties to even, as torch does.
  explicit BFloat16(float value) {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? wide >> 16 | 0x40u
                                          : (wide + 0x7fffu + (wide >> 16 & 1u)) >> 16);
  }

  explicit operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }

  std::uint16_t bits = 0;
};

// Writes the sum of `size` rows of `count` values to `out`, from row 0 upwards. Values of bfloat16
// are summed in float32 and rounded once.
template <class T>
void SumRows(const char* rows, int size, T* out, std::int64_t count) {
  using Wide = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
  constexpr std::int64_t kBlock = 1024;
  const auto* const in = reinterpret_cast<const T*>(rows);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t block = std::min(kBlock, count - begin);
    Wide sums[kBlock];
    for (std::int64_t i = 0; i < block; ++i) sums[i] = static_cast<Wide>(in[begin + i]);
    for (int row = 1; row < size; ++row) {
      const T* const next = in + row * count + begin;
      for (std::int64_t i = 0; i < block; ++i)
        sums[i] = static_cast<Wide>(sums[i] + static_cast<Wide>(next[i]));
    }
    for (std::int64_t i = 0; i < block; ++i) out[begin + i] = static_cast<T>(sums[i]);
  }
}

void SumRows(const char* rows, int size, const Buffer& out) {
  switch (out.dtype) {
    case DType::kFloat32:
      return SumRows(rows, size, static_cast<float*>(out.data), out.count);
    case DType::kFloat64:
      return SumRows(rows, size, static_cast<double*>(out.data), out.count);
    case DType::kBFloat16:
      return SumRows(rows, size, static_cast<BFloat16*>(out.data), out.count);
    case DType::kInt32:
      return SumRows(rows, size, static_cast<std::int32_t*>(out.data), out.count);
    case DType::kInt64:
      return SumRows(rows, size, static_cast<std::int64_t*>(out.data), out.count);
    case DType::kUInt8:
      return SumRows(rows, size, static_cast<std::uint8_t*>(out.data), out.count);
  }
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

// Open MPI moves data inside its calls only. While large collectives are in progress, a thread
// makes such calls, so that their data moves while the rank computes. Thread-safe.
class ProgressThread {
 public:
  void Add() {
    const MutexLock lock(mutex_);
    ++works_;
    if (!thread_.joinable() && !ends_) thread_ = std::thread([this] { Run(); });
    changed_.NotifyAll();
  }

  void Remove() {
    const MutexLock lock(mutex_);
    --works_;
  }

  // The thread calls MPI no more.
  void End() {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Returns false at the end.
  bool WaitForWork() {
    const MutexLock lock(mutex_);
    const auto ready = [this]() REQUIRES(mutex_) { return ends_ || works_ > 0; };
    while (!changed_.WaitFor(mutex_, std::chrono::minutes(1), ready)) {
    }
    return !ends_;
  }

  void Run() {
    while (WaitForWork()) {
      int found = 0;
      if (!broken) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, nullptr);
      // At 10 Gbit/s, 250 kB arrive meanwhile, which the buffers of the sockets hold.
      constexpr timespec kRest{0, 200'000};
      ::nanosleep(&kRest, nullptr);
    }
  }

  Mutex mutex_;
  CondVar changed_;
  int works_ GUARDED_BY(mutex_) = 0;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Null where MPI does not let two threads call it.
ProgressThread* progress = nullptr;

// A collective that needs the thread, if there is one.
class InBackground {
 public:
  InBackground() {
    if (progress != nullptr) progress->Add();
  }

  ~InBackground() {
    if (progress != nullptr) progress->Remove();
  }

  InBackground(const InBackground&) = delete;
  InBackground& operator=(const InBackground&) = delete;
};

// What follows when a request is complete: may start another one, on which Wait waits too. Returns
// an error code of MPI.
using Continuation = std::function<int(MPI_Request* next)>;

class MpiWork : public Work {
 public:
  MpiWork(MPI_Request request, const char* what, const Liveness* liveness, Continuation then,
          bool is_large)
      : request_(request), what_(what), liveness_(liveness), then_(std::move(then)) {
    if (is_large) background_.emplace();
  }

  Status Wait(Milliseconds timeout) override {
    const auto started = SteadyClock::now();
    background_.reset();  // from here on, this thread calls MPI
    BUTTRESS_RETURN_IF_ERROR(Complete(started, timeout));
    if (then_ == nullptr) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(FromMpi(then_(&request_), what_));
    return Complete(started, timeout);
  }

 private:
  Status Complete(SteadyClock::time_point started, Milliseconds timeout) {
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

  MPI_Request request_;
  const char* what_;
  const Liveness* liveness_;
  const Continuation then_;
  std::optional<InBackground> background_;
};

// A buffer divided among the ranks: rank r sums counts[r] values from begins[r]. Every rank sends
// each of the others its part, and receives `size` rows of its own.
struct Division {
  Division(std::int64_t count, int size, int rank) {
    const std::int64_t part = (count + size - 1) / size;
    for (int r = 0; r < size; ++r) {
      const std::int64_t begin = std::min(count, r * part);
      begins.push_back(static_cast<int>(begin));
      counts.push_back(static_cast<int>(std::min(count - begin, part)));
    }
    const int own = counts[static_cast<std::size_t>(rank)];
    row_counts.assign(static_cast<std::size_t>(size), own);
    for (int r = 0; r < size; ++r) row_begins.push_back(r * own);
  }

  std::vector<int> counts, begins, row_counts, row_begins;
};

// Parts of a buffer by rank, with the counts of MPI.
struct Parts {
  explicit Parts(const std::vector<std::int64_t>& by_rank) {
    int begin = 0;
    for (const std::int64_t count : by_rank) {
      counts.push_back(static_cast<int>(count));
      begins.push_back(begin);
      begin += counts.back();
    }
  }

  std::vector<int> counts, begins;
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
    if (Status status = Check({inout}); !status.ok()) return CompletedWork(std::move(status));
    constexpr std::int64_t kGathered = 16 << 10;  // bytes below which one round costs less than two
    if (inout.count * SizeOf(inout.dtype) <= kGathered) return SumOfGathered(inout);
    const MPI_Datatype type = TypeOf(inout.dtype);
    const auto division = std::make_shared<const Division>(inout.count, size_, rank_);
    const auto own = static_cast<std::size_t>(rank_);
    const std::int64_t begin = division->begins[own] * SizeOf(inout.dtype);
    const Buffer part{static_cast<char*>(inout.data) + begin, division->counts[own], inout.dtype};
    const auto rows = Rows(part);
    return Post(
        "all-reduce", {inout},
        [&](MPI_Request* request) {
          return MPI_Ialltoallv(inout.data, division->counts.data(), division->begins.data(), type,
                                rows.get(), division->row_counts.data(),
                                division->row_begins.data(), type, comm_, request);
        },
        [this, inout, type, part, rows, division](MPI_Request* next) {
          SumRows(rows.get(), size_, part);
          return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, inout.data, division->counts.data(),
                                 division->begins.data(), type, comm_, next);
        });
  }

  std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) override {
    if (in.count != out.count * size_ || in.dtype != out.dtype) {
      return CompletedWork(
          InvalidArgument("reduce-scatter: in.count must be out.count * size, of one dtype"));
    }
    if (Status status = Check({in, out}); !status.ok()) return CompletedWork(std::move(status));
    const auto rows = Rows(out);
    return Post(
        "reduce-scatter", {in, out},
        [&](MPI_Request* request) {
          const MPI_Datatype type = TypeOf(in.dtype);
          return MPI_Ialltoall(in.data, Count(out), type, rows.get(), Count(out), type, comm_,
                               request);
        },
        [size = size_, rows, out](MPI_Request*) {
          SumRows(rows.get(), size, out);
          return MPI_SUCCESS;
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

  std::unique_ptr<Work> AllToAll(Buffer in, const std::vector<std::int64_t>& sent, Buffer out,
                                 const std::vector<std::int64_t>& received) override {
    Status status = CheckExchange(in, sent, out, received, size_);
    if (!status.ok()) return CompletedWork(std::move(status));
    if (status = Check({in, out}); !status.ok()) return CompletedWork(std::move(status));
    const auto from = std::make_shared<const Parts>(sent);
    const auto to = std::make_shared<const Parts>(received);
    return Post(
        "all-to-all", {in, out},
        [&](MPI_Request* request) {
          const MPI_Datatype type = TypeOf(in.dtype);
          return MPI_Ialltoallv(in.data, from->counts.data(), from->begins.data(), type, out.data,
                                to->counts.data(), to->begins.data(), type, comm_, request);
        },
        [from, to](MPI_Request*) { return MPI_SUCCESS; });  // MPI reads them until then
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
  static Status Check(std::initializer_list<Buffer> buffers) {
    for (const Buffer& buffer : buffers) {
      if (buffer.device != DeviceKind::kCpu)
        return InvalidArgument("collective mpi: buffers must be in CPU memory");
      if (buffer.count < 0 || buffer.count > std::numeric_limits<int>::max()) {
        return InvalidArgument(
            fmt::format("collective mpi: {} elements; the limit is 2^31 - 1", buffer.count));
      }
    }
    return OkStatus();
  }

  static int Count(const Buffer& buffer) { return static_cast<int>(buffer.count); }

  // Returns memory for the values of every rank that add up to `sum`.
  std::shared_ptr<char[]> Rows(const Buffer& sum) const {
    return std::make_unique_for_overwrite<char[]>(
        static_cast<std::size_t>(size_ * sum.count * SizeOf(sum.dtype)));
  }

  std::unique_ptr<Work> SumOfGathered(Buffer inout) {
    const auto rows = Rows(inout);
    return Post(
        "all-reduce", {inout},
        [&](MPI_Request* request) {
          const MPI_Datatype type = TypeOf(inout.dtype);
          return MPI_Iallgather(inout.data, Count(inout), type, rows.get(), Count(inout), type,
                                comm_, request);
        },
        [size = size_, rows, inout](MPI_Request*) {
          SumRows(rows.get(), size, inout);
          return MPI_SUCCESS;
        });
  }

  template <class Call>
  std::unique_ptr<Work> Post(const char* what, std::initializer_list<Buffer> buffers, Call call,
                             Continuation then = nullptr) {
    if (broken) return CompletedWork(Aborted(fmt::format("MPI {}: the group was aborted", what)));
    if (Status status = Check(buffers); !status.ok()) return CompletedWork(std::move(status));
    MPI_Request request = MPI_REQUEST_NULL;
    const Status status = FromMpi(call(&request), what);
    if (!status.ok()) return CompletedWork(status);
    const bool is_large = std::ranges::any_of(buffers, [](const Buffer& buffer) {
      return buffer.count * SizeOf(buffer.dtype) >= kLargeBytes;
    });
    return std::make_unique<MpiWork>(request, what, liveness(), std::move(then), is_large);
  }

  MPI_Comm comm_;
  bool owned_;
  Milliseconds timeout_;
  int rank_ = 0;
  int size_ = 0;
};

void FinalizeAtExit() {
  if (progress != nullptr) progress->End();
  if (!broken) MPI_Finalize();
}

}  // namespace

Result<std::unique_ptr<Collective>> MakeMpiCollective(Milliseconds timeout) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  BUTTRESS_CHECK(initialised == 0, "MakeMpiCollective must be called once a process");
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    return Unavailable(
        "MPI_Init_thread does not provide MPI_THREAD_FUNNELED; check the installation of Open MPI");
  }
  if (provided == MPI_THREAD_MULTIPLE) progress = new ProgressThread;  // lives until the exit
  std::atexit(FinalizeAtExit);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return std::unique_ptr<Collective>(
      std::make_unique<MpiCollective>(MPI_COMM_WORLD, false, timeout));
}

}  // namespace buttress
