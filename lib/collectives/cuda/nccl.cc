// The NCCL back end, in libbuttress_cuda.so. Streams, events and memory are those of the device
// that LibTorch knows, through interfaces that do not name CUDA.
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nccl.h>
#include <torch/types.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "lib/collectives/call_watch.h"
#include "lib/collectives/collective.h"
#include "lib/collectives/communicator_life.h"
#include "lib/collectives/cuda/cuda_api.h"

namespace buttress {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Makes calls that throw errors of the device.
template <class Calls>
Status OnDevice(const std::string& what, Calls calls) {
  try {
    calls();
  } catch (const c10::Error& e) {
    return Unavailable(c10::str("device, ", what, ": ", e.what_without_backtrace()));
  } catch (const std::exception& e) {
    return Unavailable(c10::str("device, ", what, ": ", e.what()));
  }
  return OkStatus();
}

Status FromNccl(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess || result == ncclInProgress) return OkStatus();
  return Unavailable(
      c10::str("NCCL ", what, ": ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

std::optional<ncclDataType_t> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
  }
  return std::nullopt;
}

// A communicator with its stream. The collective and its works share it, so that an abort reaches
// both.
class Communicator {
 public:
  Communicator(ncclComm_t comm, at::Device device)
      : comm_(comm),
        device_(device),
        life_(
            "NCCL", [comm] { ncclCommAbort(comm); }, [comm] { ncclCommDestroy(comm); }) {}

  ~Communicator() { life_.Abort(); }  // before the memory goes that its kernels may use

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Status Prepare(Milliseconds timeout) {
    BUTTRESS_RETURN_IF_ERROR(Settle("start", timeout));
    return OnDevice("start", [this] {
      stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
      scratch_ = at::zeros({1}, at::TensorOptions(at::kInt).device(device_));
    });
  }

  // Calls NCCL on the communicator.
  template <class Call>
  Status Use(const std::string& what, Call call) {
    return life_.Use(what, [&] { return FromNccl(call(comm_), what); });
  }

  // Waits until NCCL has finished the last call on the host. Communicators are nonblocking, so that
  // a missing rank causes an error instead of a hang.
  Status Settle(const std::string& what, Milliseconds timeout, const Liveness* liveness = nullptr) {
    const auto settled = [&] { return Settled(what); };
    return life_.Wait(what, settled, MayGoOn(what, timeout, liveness));
  }

  // Waits until the device has reached the event `done`.
  Status Await(const std::shared_ptr<const c10::Event>& done, const std::string& what,
               Milliseconds timeout, const Liveness* liveness) {
    return life_.Wait(what, Reaches(done, what), MayGoOn(what, timeout, liveness));
  }

  // Lets the current stream of the caller wait for the event, and watches what the host does not.
  Status Join(const std::shared_ptr<const c10::Event>& done, const std::string& what,
              Milliseconds timeout, const Liveness* liveness) {
    BUTTRESS_RETURN_IF_ERROR(Use(what, [](ncclComm_t) { return ncclSuccess; }));
    BUTTRESS_RETURN_IF_ERROR(OnDevice(what, [&] {
      done->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }));
    watch_.Add(what, Reaches(done, what), MayGoOn(what, timeout, liveness));
    return OkStatus();
  }

  void Abort() { life_.Abort(); }

  // Flushes and releases the communicator. Every rank calls it.
  Status End(Milliseconds timeout, const Liveness* liveness) {
    BUTTRESS_RETURN_IF_ERROR(Use("end", [](ncclComm_t comm) { return ncclCommFinalize(comm); }));
    BUTTRESS_RETURN_IF_ERROR(Settle("end", timeout, liveness));
    return life_.End();
  }

  at::Device device() const { return device_; }

  // REQUIRES: Prepare.
  const c10::Stream& stream() const { return *stream_; }

  // One number for barriers. REQUIRES: Prepare.
  void* scratch() const { return scratch_.mutable_data_ptr(); }

 private:
  Result<bool> Settled(const std::string& what) const {
    ncclResult_t state = ncclSuccess;
    BUTTRESS_RETURN_IF_ERROR(FromNccl(ncclCommGetAsyncError(comm_, &state), what));
    BUTTRESS_RETURN_IF_ERROR(FromNccl(state, what));
    return state == ncclSuccess;
  }

  // Returns whether the device has reached the event, or the error of NCCL that keeps it from that.
  std::function<Result<bool>()> Reaches(std::shared_ptr<const c10::Event> done,
                                        std::string what) const {
    return [this, done = std::move(done), what = std::move(what)]() -> Result<bool> {
      bool is_done = false;
      BUTTRESS_RETURN_IF_ERROR(OnDevice(what, [&] {
        // Without its device, a thread of its own would take memory of the first one.
        c10::impl::VirtualGuardImpl(device_.type()).setDevice(device_);
        is_done = done->query();
      }));
      if (is_done) return true;
      BUTTRESS_RETURN_IF_ERROR(Settled(what).status());
      return false;
    };
  }

  static std::function<Status(Milliseconds)> MayGoOn(const std::string& what, Milliseconds timeout,
                                                     const Liveness* liveness) {
    return [=](Milliseconds waited) { return MayWait(liveness, "NCCL " + what, waited, timeout); };
  }

  const ncclComm_t comm_;
  const at::Device device_;
  std::optional<c10::Stream> stream_;
  at::Tensor scratch_;
  CommunicatorLife life_;
  CallWatch watch_{life_};
};

class NcclWork : public Work {
 public:
  NcclWork(std::shared_ptr<Communicator> communicator, std::shared_ptr<const c10::Event> done,
           const char* what, const Liveness* liveness)
      : communicator_(std::move(communicator)),
        done_(std::move(done)),
        what_(what),
        liveness_(liveness) {}

  Status Wait(Milliseconds timeout) override {
    return communicator_->Await(done_, what_, timeout, liveness_);
  }

  Status Join(Milliseconds timeout) override {
    return communicator_->Join(done_, what_, timeout, liveness_);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<const c10::Event> done_;
  const char* what_;
  const Liveness* liveness_;
};

class NcclCollective : public Collective {
 public:
  NcclCollective(std::shared_ptr<Communicator> communicator, int rank, int size,
                 Milliseconds timeout)
      : communicator_(std::move(communicator)), rank_(rank), size_(size), timeout_(timeout) {}

  int rank() const override { return rank_; }

  int size() const override { return size_; }

  std::unique_ptr<Work> AllReduceSum(Buffer inout) override {
    return Post(
        "all-reduce", {inout}, [&](ncclComm_t comm, ncclDataType_t type, cudaStream_t stream) {
          return ncclAllReduce(inout.data, inout.data, Count(inout), type, ncclSum, comm, stream);
        });
  }

  std::unique_ptr<Work> ReduceScatterSum(Buffer in, Buffer out) override {
    if (in.count != out.count * size_ || in.dtype != out.dtype) {
      return CompletedWork(
          InvalidArgument("reduce-scatter: in.count must be out.count * size, of one dtype"));
    }
    return Post("reduce-scatter", {in, out},
                [&](ncclComm_t comm, ncclDataType_t type, cudaStream_t stream) {
                  return ncclReduceScatter(in.data, out.data, Count(out), type, ncclSum, comm,
                                           stream);
                });
  }

  std::unique_ptr<Work> AllGather(Buffer in, Buffer out) override {
    if (out.count != in.count * size_ || in.dtype != out.dtype) {
      return CompletedWork(
          InvalidArgument("all-gather: out.count must be in.count * size, of one dtype"));
    }
    return Post("all-gather", {in, out},
                [&](ncclComm_t comm, ncclDataType_t type, cudaStream_t stream) {
                  return ncclAllGather(in.data, out.data, Count(in), type, comm, stream);
                });
  }

  std::unique_ptr<Work> AllToAll(Buffer in, const std::vector<std::int64_t>& sent, Buffer out,
                                 const std::vector<std::int64_t>& received) override {
    Status status = CheckExchange(in, sent, out, received, size_);
    if (!status.ok()) return CompletedWork(std::move(status));
    return Post("all-to-all", {in, out},
                [&](ncclComm_t comm, ncclDataType_t type, cudaStream_t stream) {
                  const auto* from = static_cast<const char*>(in.data);
                  auto* to = static_cast<char*>(out.data);
                  ncclGroupStart();
                  for (int peer = 0; peer < size_; ++peer) {
                    const std::int64_t gives = sent[static_cast<std::size_t>(peer)];
                    const std::int64_t takes = received[static_cast<std::size_t>(peer)];
                    ncclSend(from, static_cast<std::size_t>(gives), type, peer, comm, stream);
                    ncclRecv(to, static_cast<std::size_t>(takes), type, peer, comm, stream);
                    from += gives * SizeOf(in.dtype);
                    to += takes * SizeOf(in.dtype);
                  }
                  return ncclGroupEnd();
                });
  }

  std::unique_ptr<Work> Broadcast(Buffer inout, int root) override {
    if (root < 0 || root >= size_)
      return CompletedWork(InvalidArgument(c10::str("broadcast from rank ", root, " of ", size_)));
    return Post(
        "broadcast", {inout}, [&](ncclComm_t comm, ncclDataType_t type, cudaStream_t stream) {
          return ncclBroadcast(inout.data, inout.data, Count(inout), type, root, comm, stream);
        });
  }

  Status Barrier() override {
    return AllReduceSum({communicator_->scratch(), 1, DType::kInt32, DeviceKind::kDevice})
        ->Wait(timeout_);
  }

  Result<std::unique_ptr<Collective>> Split(int color, int key) override {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t part = nullptr;
    BUTTRESS_RETURN_IF_ERROR(communicator_->Use(
        "split", [&](ncclComm_t comm) { return ncclCommSplit(comm, color, key, &part, &config); }));
    BUTTRESS_RETURN_IF_ERROR(communicator_->Settle("split", timeout_, liveness()));
    auto communicator = std::make_shared<Communicator>(part, communicator_->device());
    BUTTRESS_RETURN_IF_ERROR(communicator->Prepare(timeout_));
    int rank = 0, size = 0;
    BUTTRESS_RETURN_IF_ERROR(FromNccl(ncclCommUserRank(part, &rank), "split"));
    BUTTRESS_RETURN_IF_ERROR(FromNccl(ncclCommCount(part, &size), "split"));
    auto split = std::make_unique<NcclCollective>(communicator, rank, size, timeout_);
    split->Watch(liveness());
    return std::unique_ptr<Collective>(std::move(split));
  }

  Status End() override {
    BUTTRESS_RETURN_IF_ERROR(Barrier());
    return communicator_->End(timeout_, liveness());
  }

  void Abort() override { communicator_->Abort(); }

 private:
  static std::size_t Count(const Buffer& buffer) { return static_cast<std::size_t>(buffer.count); }

  template <class Call>
  std::unique_ptr<Work> Post(const char* what, std::initializer_list<Buffer> buffers, Call call) {
    for (const Buffer& buffer : buffers) {
      if (buffer.device != DeviceKind::kDevice)
        return CompletedWork(
            InvalidArgument("collective nccl: buffers must be in the memory of the device"));
    }
    const auto type = TypeOf(buffers.begin()->dtype);
    if (!type) return CompletedWork(InvalidArgument("collective nccl: unknown dtype"));
    const c10::Stream& stream = communicator_->stream();
    const c10::DeviceGuard guard(communicator_->device());
    const auto event = std::make_shared<c10::Event>(communicator_->device().type());
    Status status = OnDevice(what, [&] {
      const c10::impl::VirtualGuardImpl backend(communicator_->device().type());
      event->record(backend.getStream(communicator_->device()));
      event->block(stream);
    });
    if (status.ok()) {
      status = communicator_->Use(what, [&](ncclComm_t comm) {
        return call(comm, *type, static_cast<cudaStream_t>(stream.native_handle()));
      });
    }
    if (status.ok()) status = communicator_->Settle(what, timeout_, liveness());
    if (status.ok()) status = OnDevice(what, [&] { event->record(stream); });
    if (!status.ok()) {
      communicator_->Abort();
      return CompletedWork(status);
    }
    return std::make_unique<NcclWork>(communicator_, event, what, liveness());
  }

  std::shared_ptr<Communicator> communicator_;
  int rank_;
  int size_;
  Milliseconds timeout_;
};

// Begins to join the group; Communicator::Prepare waits for the other ranks.
Result<std::shared_ptr<Communicator>> StartRank(const ncclUniqueId& id, int rank, int size,
                                                int device) {
  const auto kind = at::accelerator::getAccelerator();
  if (!kind) return FailedPrecondition("LibTorch knows no device; start with device: cuda");
  const at::Device place(*kind, static_cast<at::DeviceIndex>(device));
  BUTTRESS_RETURN_IF_ERROR(OnDevice(c10::str("use of ", place), [&] {
    at::accelerator::setDeviceIndex(place.index());  // which NCCL takes
  }));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  BUTTRESS_RETURN_IF_ERROR(
      FromNccl(ncclCommInitRankConfig(&comm, size, id, rank, &config), "start"));
  return std::make_shared<Communicator>(comm, place);
}

Result<std::unique_ptr<Collective>> MakeGroup(Collective& bootstrap, int device,
                                              Milliseconds timeout) {
  ncclUniqueId id{};
  Status made;
  if (bootstrap.rank() == 0) made = FromNccl(ncclGetUniqueId(&id), "unique id");
  // An empty id tells the other ranks that rank 0 failed.
  std::string bytes = made.ok() ? std::string(id.internal, sizeof id.internal) : std::string();
  BUTTRESS_ASSIGN_OR_RETURN(bytes, BroadcastBytes(bootstrap, std::move(bytes), 0, timeout));
  BUTTRESS_RETURN_IF_ERROR(made);
  if (bytes.size() != sizeof id.internal)
    return Unavailable("NCCL unique id: rank 0 failed; see its log");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  BUTTRESS_ASSIGN_OR_RETURN(auto communicator,
                            StartRank(id, bootstrap.rank(), bootstrap.size(), device));
  BUTTRESS_RETURN_IF_ERROR(communicator->Prepare(timeout));
  return std::unique_ptr<Collective>(
      std::make_unique<NcclCollective>(communicator, bootstrap.rank(), bootstrap.size(), timeout));
}

class NcclSender : public WeightSender {
 public:
  NcclSender(std::string id, std::shared_ptr<Communicator> communicator, int ranks,
             Milliseconds timeout)
      : id_(std::move(id)),
        communicator_(communicator),
        group_(std::move(communicator), 0, ranks, timeout),
        timeout_(timeout) {}

  const std::string& id() const override { return id_; }

  Status Join() override {
    BUTTRESS_RETURN_IF_ERROR(communicator_->Prepare(timeout_));
    BUTTRESS_RETURN_IF_ERROR(OnDevice("start", [this] {
      const at::TensorOptions options = at::TensorOptions().device(communicator_->device());
      warm_up_ = at::zeros({1}, options.dtype(at::kFloat));
    }));
    return group_
        .AllReduceSum({warm_up_.mutable_data_ptr(), 1, DType::kFloat32, DeviceKind::kDevice})
        ->Wait(timeout_);
  }

  Status Send(std::string_view bytes) override {
    const auto size = static_cast<std::int64_t>(bytes.size());
    Status status = OnDevice("copy of weights", [&] {
      const at::TensorOptions options(at::kByte);
      if (!buffer_.defined() || buffer_.numel() < size)
        buffer_ = at::empty({size}, options.device(communicator_->device()));
      buffer_.narrow(0, 0, size)
          .copy_(torch::from_blob(const_cast<char*>(bytes.data()), {size}, options));
    });
    if (!status.ok()) {
      Abort();
      return status;
    }
    return group_
        .Broadcast({buffer_.mutable_data_ptr(), size, DType::kUInt8, DeviceKind::kDevice}, 0)
        ->Wait(timeout_);
  }

  void Abort() override { communicator_->Abort(); }

 private:
  const std::string id_;
  at::Tensor warm_up_, buffer_;  // kept until the group, whose kernels use them, is gone
  const std::shared_ptr<Communicator> communicator_;
  NcclCollective group_;
  const Milliseconds timeout_;
};

class CudaApiImpl : public CudaApi {
 public:
  Result<std::unique_ptr<Collective>> MakeNccl(Collective& bootstrap, int device,
                                               Milliseconds timeout) override {
    return MakeGroup(bootstrap, device, timeout);
  }

  Result<std::unique_ptr<WeightSender>> MakeWeightSender(int ranks, int device,
                                                         Milliseconds timeout) override {
    ncclUniqueId id{};
    BUTTRESS_RETURN_IF_ERROR(FromNccl(ncclGetUniqueId(&id), "unique id"));
    BUTTRESS_ASSIGN_OR_RETURN(auto communicator, StartRank(id, 0, ranks, device));
    return std::unique_ptr<WeightSender>(std::make_unique<NcclSender>(
        std::string(id.internal, sizeof id.internal), std::move(communicator), ranks, timeout));
  }

  Result<std::unique_ptr<SharedBuffer>> MakeSharedBuffer(std::int64_t bytes, int device) override {
    return MakeIpcBuffer(bytes, device);
  }

  Status StochasticAdamW(const AdamWRange& range, int device) override {
    const char* error = nullptr;
    BUTTRESS_RETURN_IF_ERROR(OnDevice("stochastic AdamW", [&] {
      const at::Device place(at::accelerator::getAccelerator(true).value(),
                             static_cast<at::DeviceIndex>(device));
      const c10::DeviceGuard guard(place);
      const c10::Stream stream = c10::impl::VirtualGuardImpl(place.type()).getStream(place);
      error = LaunchStochasticAdamW(range, stream.native_handle());
    }));
    if (error != nullptr) return Unavailable(c10::str("device, stochastic AdamW: ", error));
    return OkStatus();
  }
};

}  // namespace
}  // namespace buttress

extern "C" __attribute__((visibility("default"))) buttress::CudaApi* buttress_cuda_api() {
  static buttress::CudaApiImpl api;
  return &api;
}
