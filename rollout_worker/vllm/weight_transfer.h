// How a server gets weights: which of the ways of local.worker.vllm.weights it takes, and vLLM's
// native transfers by NCCL and by memory that server and worker share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/collectives/cuda/shared_buffer.h"
#include "lib/collectives/cuda/weight_sender.h"
#include "lib/config/run_config.h"

namespace buttress {

// What a server can do with weights.
struct TransferFacts {
  bool native = false;          // it takes native transfers
  std::string backend;          // of its --weight-transfer-config; empty: none
  std::int64_t world_size = 0;  // its processes with a part of the model; 0: it does not say
  bool versions = false;        // it keeps a tag of the weights (/weight_info)
  bool unpickles = false;       // VLLM_ALLOW_INSECURE_SERIALIZATION, which ipc needs
};

// Returns the way for a server: file, lora, nccl or ipc. `auto` is lora for `adapters`; otherwise
// nccl or ipc for a server that was started for it, if this process can use the GPU for it, and
// file for others. kFailedPrecondition names what the server, the run or this machine lacks for the
// way that is set; kInvalidArgument for a way that the kind of weights excludes.
Result<VllmWeights> ChooseTransfer(const VllmConfig& config, const TransferFacts& server,
                                   bool adapters, const std::string& url);

// Returns the GPUs of the server `url`, one for each of its processes: of launch.gpus, where the
// run starts the servers that `config` names in the same order, otherwise transfer.gpu.
std::vector<std::int64_t> GpusOfServer(const VllmConfig& config, const std::string& url);

// Makes a control call to the server.
using WeightPost = std::function<Status(const std::string& path, const std::string& json)>;

// Whether the server of a transfer that failed with `status` waits in NCCL, and answers nothing
// more.
bool IsStuckInNccl(VllmWeights way, const Status& status);

// Native transfers by NCCL to one server. Its processes and this one, rank 0, are a group of their
// own, so that a server which fails costs no other. Not thread-safe.
class NcclTransfer {
 public:
  NcclTransfer(const VllmTransferConfig& config, std::int64_t timeout_ms)
      : config_(config), timeout_ms_(timeout_ms) {}

  // Forms the group with the process of the server that began at `started_at_ms`, unless it is
  // formed. The server may serve meanwhile.
  Status Join(const TransferFacts& server, std::int64_t started_at_ms, const WeightPost& post);

  // Sends the tensors of a safetensors folder, and tags them as `version`. After an error the
  // server's weights are undefined and the group is left. REQUIRES: Join, and the server is paused.
  Status Send(const std::string& folder, const std::string& version, const WeightPost& post);

 private:
  // Runs `ours` beside a call that the server answers when its ranks have done their part. An error
  // of the call aborts the group; each side ends within the timeout.
  Status Beside(const std::function<Status()>& ours, const std::function<Status()>& call);

  const VllmTransferConfig config_;
  const std::int64_t timeout_ms_;
  std::unique_ptr<WeightSender> sender_;
  std::int64_t started_at_ms_ = 0;  // of the process in the group
};

// Native transfers to one server through a buffer on each of its GPUs, which the server maps. Not
// thread-safe.
class IpcTransfer {
 public:
  // The buffers have `buffer_mib`.
  explicit IpcTransfer(std::int64_t buffer_mib) : buffer_mib_(buffer_mib) {}

  // Allocates the buffers on `gpus`, unless it has them, and prepares the process of the server.
  // The server may serve meanwhile.
  Status Join(const std::vector<std::int64_t>& gpus, const WeightPost& post);

  // As NcclTransfer::Send. kFailedPrecondition names a tensor that is larger than the buffer.
  Status Send(const std::string& folder, const std::string& version, const WeightPost& post);

 private:
  // Sends `bytes`, which the update `info` describes.
  Status SendChunk(std::string_view bytes, nlohmann::json info, const WeightPost& post);

  const std::int64_t buffer_mib_;
  std::vector<std::unique_ptr<SharedBuffer>> buffers_;
  std::string handles_;  // ipc_handles_pickled
};

}  // namespace buttress
