#include "rollout_worker/vllm/weight_transfer.h"

#include <absl/strings/escaping.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "lib/collectives/cuda/shared_buffer.h"
#include "lib/collectives/cuda/weight_sender.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"
#include "lib/weights/safetensors.h"
#include "rollout_worker/vllm/ipc_pickle.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr const char* kSetting = "local.worker.vllm.weights";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr int kStagedChunks = 2;  // that a server receives into at a time

Result<CudaApi*> OpenCuda() {
  return OpenCudaLibrary("the worker", std::string(kSetting) + ": file");
}

Status CheckGpu(std::int64_t gpu) {
  BUTTRESS_RETURN_IF_ERROR(OpenCuda().status());
  const int visible = VisibleCudaDevices();
  if (gpu < visible) return OkStatus();
  return FailedPrecondition(
      fmt::format("local.worker.vllm.transfer.gpu or launch.gpus names GPU {}; the worker sees {} "
                  "GPUs, counted from 0",
                  gpu, visible));
}

// The handles of ipc are a program that the server runs, and mean nothing on other machines.
bool IsOnLoopback(const std::string& url) {
  const std::string place = url.substr(url.find("//") + 2);
  const std::string host = place.substr(0, place.rfind(':'));
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (numeric && host.starts_with("127."));
}

Status CheckIpc(const VllmConfig& config, const TransferFacts& server, const std::string& url,
                const std::string& wants) {
  if (!IsOnLoopback(url)) {
    return FailedPrecondition(wants +
                              ", and its address is not of loopback; a server gets weights "
                              "so on the machine of its worker alone: set nccl or file");
  }
  if (!server.unpickles) {
    return FailedPrecondition(wants +
                              ", and the server takes no pickles; start it with "
                              "VLLM_ALLOW_INSECURE_SERIALIZATION=1, or set file");
  }
  const std::vector<std::int64_t> gpus = GpusOfServer(config, url);
  if (std::ssize(gpus) != server.world_size) {
    return FailedPrecondition(
        fmt::format("{}, and the server has {} processes where the run knows {} of its GPUs; name "
                    "them by local.worker.vllm.launch.gpus and tensor_parallel, or set file",
                    wants, server.world_size, gpus.size()));
  }
  for (const std::int64_t gpu : gpus) BUTTRESS_RETURN_IF_ERROR(CheckGpu(gpu).Annotate(wants));
  return OkStatus();
}

// Checks that the server takes `way`, nccl or ipc.
Status CheckNative(const VllmConfig& config, VllmWeights way, const TransferFacts& server,
                   const std::string& url) {
  const std::string_view backend = ChoiceName(way);
  const std::string wants = fmt::format("{}: {} = {}", url, kSetting, backend);
  if (!server.native) {
    return FailedPrecondition(wants +
                              ", and the server takes no such transfers; install vLLM 0.32 or "
                              "newer, or set file");
  }
  if (server.backend != backend) {
    return FailedPrecondition(
        fmt::format("{}, and the server's backend of weight transfers is '{}'; start it with "
                    "--weight-transfer-config '{{\"backend\":\"{}\"}}', or set file",
                    wants, server.backend, backend));
  }
  if (server.world_size < 1)
    return FailedPrecondition(wants + ", and the server does not say its /get_world_size");
  if (way == VllmWeights::kIpc) return CheckIpc(config, server, url, wants);
  return CheckGpu(config.transfer.gpu).Annotate(wants);
}

std::string_view TorchName(std::string_view dtype) {
  if (dtype == "F32") return "float32";
  if (dtype == "BF16") return "bfloat16";
  return dtype == "F16" ? "float16" : "";
}

// Adds a tensor to the update_info that /update_weights gets.
Status Announce(const TensorView& tensor, Json& info) {
  const std::string_view dtype = TorchName(tensor.dtype);
  if (dtype.empty() || tensor.data.empty()) {
    return InvalidArgument(
        fmt::format("tensor {} is {} of {} bytes; expected F32, BF16 or F16 "
                    "with values",
                    tensor.name, tensor.dtype, tensor.data.size()));
  }
  info["names"].push_back(tensor.name);
  info["dtype_names"].push_back(dtype);
  info["shapes"].push_back(tensor.shape);
  return OkStatus();
}

// A path may be of other bytes than UTF-8.
std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string UpdateBody(const Json& info) { return Json{{"update_info", info}}.dump(); }

// An update that failed before its end would be in the way of this one.
Status StartUpdate(const WeightPost& post) {
  if (post("/start_weight_update", "").ok()) return OkStatus();
  post("/finish_weight_update", "").IgnoreError();
  return post("/start_weight_update", "");
}

Status FinishUpdate(const std::string& version, const WeightPost& post) {
  return post("/finish_weight_update", Json{{"weight_version", version}}.dump());
}

// As torch writes it: 8-4-4-4-12 digits of the 32.
Result<std::string> TorchUuid(std::int64_t gpu) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string uuid, CudaDeviceUuid(static_cast<int>(gpu)));
  for (const std::size_t place : {20, 16, 12, 8}) uuid.insert(place, "-");
  return uuid;
}

// The tensors, wide elements first: vLLM reads each where it lies in a chunk, and must find it
// aligned.
std::vector<const TensorView*> InSendingOrder(const SafetensorsFolder& weights) {
  std::vector<const TensorView*> tensors;
  for (const std::string& name : weights.names()) tensors.push_back(weights.Find(name));
  std::ranges::stable_sort(tensors, std::greater(), [](const TensorView* tensor) {
    return SafetensorsElementSize(tensor->dtype);
  });
  return tensors;
}

// Appends the bytes of a tensor.
Status Append(const TensorView& tensor, std::string& chunk) {
  const std::size_t begin = chunk.size();
  chunk.resize(begin + tensor.data.size());
  return tensor.file->Read(tensor, chunk.data() + begin);
}

class FileWay final : public WeightWay {
 public:
  explicit FileWay(std::int64_t timeout_ms) : timeout_ms_(timeout_ms) {}

  Status Send(const std::string& folder, const std::string&, const WeightPost& post) override {
    const Json reload = {{"method", "reload_weights"},
                         {"kwargs", {{"weights_path", folder}}},
                         {"timeout", timeout_ms_ / 1000}};
    return post("/collective_rpc", TextOf(reload))
        .Annotate(folder + " must be visible to the server (vLLM exits when a load fails)");
  }

 private:
  const std::int64_t timeout_ms_;
};

class LoraWay final : public WeightWay {
 public:
  Status Send(const std::string& folder, const std::string&, const WeightPost& post) override {
    const Json load = {{"lora_name", kAdapterModel}, {"lora_path", folder}, {"load_inplace", true}};
    return post("/v1/load_lora_adapter", TextOf(load))
        .Annotate(folder +
                  " must be visible to the server, which must be started with --enable-lora "
                  "--max-lora-rank R, R at least run.lora.rank, and "
                  "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1");
  }
};

class NcclWay final : public WeightWay {
 public:
  NcclWay(const VllmTransferConfig& config, std::int64_t timeout_ms)
      : config_(config), timeout_ms_(timeout_ms) {}

  // Forms the group with the process of the server.
  Status Join(const WeightTarget& server, const WeightPost& post) override;
  Status Send(const std::string& folder, const std::string& version,
              const WeightPost& post) override;

 private:
  // Runs `ours` beside a call that the server answers when its ranks have done their part. An error
  // of the call aborts the group; each side ends within the timeout.
  Status Beside(const std::function<Status()>& ours, const std::function<Status()>& call);
  // A chunk ends with the tensor that makes it larger than the buffer; the receiver divides them by
  // the same rule (vLLM's pack_tensors).
  Status SendChunks(const std::vector<const TensorView*>& tensors);

  const VllmTransferConfig config_;
  const std::int64_t timeout_ms_;
  std::unique_ptr<WeightSender> sender_;
  std::int64_t started_at_ms_ = 0;  // of the process in the group
};

class IpcWay final : public WeightWay {
 public:
  // The buffers have `buffer_mib`.
  explicit IpcWay(std::int64_t buffer_mib) : buffer_mib_(buffer_mib) {}

  // Allocates the buffers, unless it has them.
  Status Join(const WeightTarget& server, const WeightPost& post) override;
  Status Send(const std::string& folder, const std::string& version,
              const WeightPost& post) override;

 private:
  // Sends `bytes`, which the update `info` describes.
  Status SendChunk(std::string_view bytes, Json info, const WeightPost& post);

  const std::int64_t buffer_mib_;
  std::vector<std::unique_ptr<SharedBuffer>> buffers_;
  std::string handles_;  // ipc_handles_pickled
};

Status NcclWay::Join(const WeightTarget& server, const WeightPost& post) {
  if (sender_ != nullptr && started_at_ms_ == server.started_at_ms) return OkStatus();
  sender_.reset();
  BUTTRESS_ASSIGN_OR_RETURN(CudaApi * cuda, OpenCuda());
  const std::int64_t ranks = 1 + server.facts.world_size;
  BUTTRESS_ASSIGN_OR_RETURN(
      sender_, cuda->MakeWeightSender(static_cast<int>(ranks), static_cast<int>(config_.gpu),
                                      std::chrono::milliseconds(timeout_ms_)));
  started_at_ms_ = server.started_at_ms;
  const Json info = {{"nccl_unique_id_b64", absl::Base64Escape(sender_->id())},
                     {"rank_offset", 1},
                     {"world_size", ranks},
                     {"packed", true},
                     {"packed_buffer_size_bytes", config_.buffer_mib * kMiB},
                     {"packed_num_buffers", kStagedChunks}};
  return Beside([this] { return sender_->Join(); },
                [&] {
                  return post("/init_weight_transfer_engine", Json{{"init_info", info}}.dump());
                });
}

Status NcclWay::Send(const std::string& folder, const std::string& version,
                     const WeightPost& post) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto weights, SafetensorsFolder::Open(folder));
  const std::vector<const TensorView*> tensors = InSendingOrder(*weights);
  Json info;
  for (const TensorView* tensor : tensors) BUTTRESS_RETURN_IF_ERROR(Announce(*tensor, info));
  BUTTRESS_RETURN_IF_ERROR(StartUpdate(post));
  BUTTRESS_RETURN_IF_ERROR(Beside([&] { return SendChunks(tensors); },
                                  [&] { return post("/update_weights", UpdateBody(info)); }));
  return FinishUpdate(version, post);
}

Status NcclWay::SendChunks(const std::vector<const TensorView*>& tensors) {
  std::string chunk;
  for (const TensorView* tensor : tensors) {
    BUTTRESS_RETURN_IF_ERROR(Append(*tensor, chunk));
    if (chunk.size() <= static_cast<std::size_t>(config_.buffer_mib * kMiB)) continue;
    BUTTRESS_RETURN_IF_ERROR(sender_->Send(chunk));
    chunk.clear();
  }
  return chunk.empty() ? OkStatus() : sender_->Send(chunk);
}

Status NcclWay::Beside(const std::function<Status()>& ours, const std::function<Status()>& call) {
  Status sent;
  std::thread sends([&] {
    sent = ours();
    if (!sent.ok()) sender_->Abort();
  });
  Status answered = call();
  if (!answered.ok()) sender_->Abort();
  sends.join();
  if (answered.ok() && sent.ok()) return OkStatus();
  sender_.reset();
  return answered.ok() ? sent : answered;
}

Status IpcWay::Join(const WeightTarget& server, const WeightPost& post) {
  if (buffers_.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(CudaApi * cuda, OpenCuda());
    const std::int64_t bytes = buffer_mib_ * kMiB;
    std::vector<std::unique_ptr<SharedBuffer>> buffers;
    std::vector<MappableBuffer> described;
    for (const std::int64_t gpu : server.gpus) {
      BUTTRESS_ASSIGN_OR_RETURN(std::string uuid, TorchUuid(gpu));
      BUTTRESS_ASSIGN_OR_RETURN(auto buffer, cuda->MakeSharedBuffer(bytes, static_cast<int>(gpu)));
      described.push_back({std::move(uuid), buffer->handle(), bytes});
      buffers.push_back(std::move(buffer));
    }
    handles_ = absl::Base64Escape(PickleHandles(described));
    buffers_ = std::move(buffers);
  }
  return post("/init_weight_transfer_engine", R"({"init_info":{"packed":true}})");
}

// A chunk ends before the tensor that it has no room for.
Status IpcWay::Send(const std::string& folder, const std::string& version, const WeightPost& post) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto weights, SafetensorsFolder::Open(folder));
  const auto limit = static_cast<std::size_t>(buffer_mib_ * kMiB);
  const std::vector<const TensorView*> tensors = InSendingOrder(*weights);
  for (const TensorView* tensor : tensors) {
    const std::size_t bytes = tensor->data.size();
    if (bytes <= limit) continue;
    return FailedPrecondition(
        fmt::format("tensor {} has {} bytes; raise local.worker.vllm.transfer.buffer_mib, {}, to "
                    "{} at least",
                    tensor->name, bytes, buffer_mib_, (bytes + kMiB - 1) / kMiB));
  }
  BUTTRESS_RETURN_IF_ERROR(StartUpdate(post));
  std::string chunk;
  Json info;
  for (const TensorView* tensor : tensors) {
    if (chunk.size() + tensor->data.size() > limit) {
      BUTTRESS_RETURN_IF_ERROR(SendChunk(chunk, std::move(info), post));
      chunk.clear();
      info = Json();
    }
    BUTTRESS_RETURN_IF_ERROR(Announce(*tensor, info));
    info["tensor_sizes"].push_back(tensor->data.size());
    BUTTRESS_RETURN_IF_ERROR(Append(*tensor, chunk));
  }
  if (!chunk.empty()) BUTTRESS_RETURN_IF_ERROR(SendChunk(chunk, std::move(info), post));
  return FinishUpdate(version, post);
}

Status IpcWay::SendChunk(std::string_view bytes, Json info, const WeightPost& post) {
  for (const auto& buffer : buffers_) BUTTRESS_RETURN_IF_ERROR(buffer->Write(bytes));
  info["ipc_handles_pickled"] = handles_;
  return post("/update_weights", UpdateBody(info));
}

}  // namespace

Result<VllmWeights> ChooseTransfer(const VllmConfig& config, const TransferFacts& server,
                                   bool adapters, const std::string& url) {
  const VllmWeights wanted = config.weights;
  const bool automatic = wanted == VllmWeights::kAuto;
  if (!automatic && (wanted == VllmWeights::kLora) != adapters) {
    return InvalidArgument(fmt::format(
        "{} = {}, and the run trains {}; expected auto or {}", kSetting, ChoiceName(wanted),
        adapters ? "adapters (run.lora)" : "all weights", adapters ? "lora" : "file, nccl, ipc"));
  }
  if (adapters) return VllmWeights::kLora;
  if (wanted == VllmWeights::kFile) return wanted;
  const bool ipc = automatic ? server.backend == "ipc" : wanted == VllmWeights::kIpc;
  const VllmWeights native = ipc ? VllmWeights::kIpc : VllmWeights::kNccl;
  const Status taken = CheckNative(config, native, server, url);
  if (taken.ok()) return native;
  if (automatic) return VllmWeights::kFile;
  return taken;
}

std::vector<std::int64_t> GpusOfServer(const VllmConfig& config, const std::string& url) {
  const VllmLaunchConfig& launch = config.launch;
  const auto place = std::ranges::find(config.servers, url) - config.servers.begin();
  const std::int64_t begin = place * launch.tensor_parallel, end = begin + launch.tensor_parallel;
  if (end > std::ssize(launch.gpus)) return {config.transfer.gpu};
  return {launch.gpus.begin() + begin, launch.gpus.begin() + end};
}

bool IsStuckInNccl(VllmWeights way, const Status& status) {
  return way == VllmWeights::kNccl && status.code() == StatusCode::kDeadlineExceeded;
}

std::map<VllmWeights, std::unique_ptr<WeightWay>> MakeWeightWays(const VllmConfig& config) {
  std::map<VllmWeights, std::unique_ptr<WeightWay>> ways;
  ways[VllmWeights::kFile] = std::make_unique<FileWay>(config.control_ms);
  ways[VllmWeights::kLora] = std::make_unique<LoraWay>();
  ways[VllmWeights::kNccl] = std::make_unique<NcclWay>(config.transfer, config.control_ms);
  ways[VllmWeights::kIpc] = std::make_unique<IpcWay>(config.transfer.buffer_mib);
  return ways;
}

}  // namespace buttress
