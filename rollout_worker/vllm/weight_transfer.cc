#include "rollout_worker/vllm/weight_transfer.h"

#include <absl/strings/escaping.h>
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"
#include "lib/weights/safetensors.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr const char* kSetting = "local.worker.vllm.weights";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr int kStagedChunks = 2;  // that a server receives into at a time

Status CheckGpu(const VllmTransferConfig& transfer) {
  BUTTRESS_RETURN_IF_ERROR(
      OpenCudaLibrary("the worker", std::string(kSetting) + ": file").status());
  const int visible = VisibleCudaDevices();
  if (transfer.gpu < visible) return OkStatus();
  return FailedPrecondition(
      fmt::format("local.worker.vllm.transfer.gpu = {}; the worker sees {} GPUs, counted from 0",
                  transfer.gpu, visible));
}

Status CheckNccl(const VllmConfig& config, const TransferFacts& server, const std::string& url) {
  const std::string wants = fmt::format("{}: {} = nccl", url, kSetting);
  if (!server.native) {
    return FailedPrecondition(wants +
                              ", and the server takes no such transfers; install vLLM 0.32 or "
                              "newer, or set file");
  }
  if (server.backend != "nccl") {
    return FailedPrecondition(
        fmt::format("{}, and the server's backend of weight transfers is '{}'; start it with "
                    "--weight-transfer-config '{{\"backend\":\"nccl\"}}', or set file",
                    wants, server.backend));
  }
  if (server.world_size < 1)
    return FailedPrecondition(wants + ", and the server does not say its /get_world_size");
  return CheckGpu(config.transfer).Annotate(wants);
}

std::string_view TorchName(std::string_view dtype) {
  if (dtype == "F32") return "float32";
  if (dtype == "BF16") return "bfloat16";
  return dtype == "F16" ? "float16" : "";
}

// What /update_weights announces.
Result<std::string> UpdateInfo(const SafetensorsFolder& weights) {
  Json names = Json::array(), dtypes = Json::array(), shapes = Json::array();
  for (const std::string& name : weights.names()) {
    const TensorView& tensor = *weights.Find(name);
    const std::string_view dtype = TorchName(tensor.dtype);
    if (dtype.empty() || tensor.data.empty()) {
      return InvalidArgument(
          fmt::format("tensor {} is {} of {} bytes; expected F32, BF16 or F16 "
                      "with values",
                      name, tensor.dtype, tensor.data.size()));
    }
    names.push_back(name);
    dtypes.push_back(dtype);
    shapes.push_back(tensor.shape);
  }
  const Json info = {{"names", names}, {"dtype_names", dtypes}, {"shapes", shapes}};
  return Json{{"update_info", info}}.dump();
}

// Sends the tensors in chunks. A chunk ends with the tensor that makes it larger than `limit`; the
// receiver divides them by the same rule (vLLM's pack_tensors).
Status SendChunks(const SafetensorsFolder& weights, std::size_t limit, WeightSender& sender) {
  std::string chunk;
  for (const std::string& name : weights.names()) {
    const TensorView& tensor = *weights.Find(name);
    const std::size_t begin = chunk.size();
    chunk.resize(begin + tensor.data.size());
    BUTTRESS_RETURN_IF_ERROR(tensor.file->Read(tensor, chunk.data() + begin));
    if (chunk.size() <= limit) continue;
    BUTTRESS_RETURN_IF_ERROR(sender.Send(chunk));
    chunk.clear();
  }
  return chunk.empty() ? OkStatus() : sender.Send(chunk);
}

}  // namespace

Result<VllmWeights> ChooseTransfer(const VllmConfig& config, const TransferFacts& server,
                                   bool adapters, const std::string& url) {
  const VllmWeights wanted = config.weights;
  const bool automatic = wanted == VllmWeights::kAuto;
  if (!automatic && (wanted == VllmWeights::kLora) != adapters) {
    return InvalidArgument(fmt::format(
        "{} = {}, and the run trains {}; expected auto or {}", kSetting, ChoiceName(wanted),
        adapters ? "adapters (run.lora)" : "all weights", adapters ? "lora" : "file, nccl"));
  }
  if (adapters) return VllmWeights::kLora;
  if (wanted == VllmWeights::kFile) return wanted;
  const Status nccl = CheckNccl(config, server, url);
  if (nccl.ok()) return VllmWeights::kNccl;
  if (automatic) return VllmWeights::kFile;
  return nccl;
}

Status NcclTransfer::Join(const TransferFacts& server, std::int64_t started_at_ms,
                          const Post& post) {
  if (sender_ != nullptr && started_at_ms_ == started_at_ms) return OkStatus();
  sender_.reset();
  BUTTRESS_ASSIGN_OR_RETURN(CudaApi * cuda,
                            OpenCudaLibrary("the worker", std::string(kSetting) + ": file"));
  const std::int64_t ranks = 1 + server.world_size;
  BUTTRESS_ASSIGN_OR_RETURN(
      sender_, cuda->MakeWeightSender(static_cast<int>(ranks), static_cast<int>(config_.gpu),
                                      std::chrono::milliseconds(timeout_ms_)));
  started_at_ms_ = started_at_ms;
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

Status NcclTransfer::Send(const std::string& folder, const std::string& version, const Post& post) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto weights, SafetensorsFolder::Open(folder));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string info, UpdateInfo(*weights));
  // An update that failed before its end would be in the way of this one.
  if (!post("/start_weight_update", "").ok()) {
    post("/finish_weight_update", "").IgnoreError();
    BUTTRESS_RETURN_IF_ERROR(post("/start_weight_update", ""));
  }
  const auto limit = static_cast<std::size_t>(config_.buffer_mib * kMiB);
  BUTTRESS_RETURN_IF_ERROR(Beside([&] { return SendChunks(*weights, limit, *sender_); },
                                  [&] { return post("/update_weights", info); }));
  return post("/finish_weight_update", Json{{"weight_version", version}}.dump());
}

Status NcclTransfer::Beside(const std::function<Status()>& ours,
                            const std::function<Status()>& call) {
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

}  // namespace buttress
