// How a server gets weights: which of the ways of local.worker.vllm.weights it takes, and vLLM's
// native transfer by NCCL.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/collectives/cuda/weight_sender.h"
#include "lib/config/run_config.h"

namespace buttress {

// What a server can do with weights.
struct TransferFacts {
  bool native = false;          // it takes native transfers by NCCL
  std::string backend;          // of its --weight-transfer-config; empty: none
  std::int64_t world_size = 0;  // its processes with a part of the model; 0: it does not say
  bool versions = false;        // it keeps a tag of the weights (/weight_info)
};

// Returns the way for a server: file, lora or nccl. `auto` is lora for `adapters`; otherwise nccl
// for a server that was started for it, if this process can use GPU transfer.gpu, and file for
// others. kFailedPrecondition names what the server, the run or this machine lacks for the way that
// is set; kInvalidArgument for a way that the kind of weights excludes.
Result<VllmWeights> ChooseTransfer(const VllmConfig& config, const TransferFacts& server,
                                   bool adapters, const std::string& url);

// Native transfers by NCCL to one server. Its processes and this one, rank 0, are a group of their
// own, so that a server which fails costs no other. Not thread-safe.
class NcclTransfer {
 public:
  // Makes a control call to the server.
  using Post = std::function<Status(const std::string& path, const std::string& json)>;

  NcclTransfer(const VllmTransferConfig& config, std::int64_t timeout_ms)
      : config_(config), timeout_ms_(timeout_ms) {}

  // Forms the group with the process of the server that began at `started_at_ms`, unless it is
  // formed. The server may serve meanwhile.
  Status Join(const TransferFacts& server, std::int64_t started_at_ms, const Post& post);

  // Sends the tensors of a safetensors folder, and tags them as `version`. After an error the
  // server's weights are undefined and the group is left. REQUIRES: Join, and the server is paused.
  Status Send(const std::string& folder, const std::string& version, const Post& post);

 private:
  // Runs `ours` beside a call that the server answers when its ranks have done their part. An error
  // of the call aborts the group; each side ends within the timeout.
  Status Beside(const std::function<Status()>& ours, const std::function<Status()>& call);

  const VllmTransferConfig config_;
  const std::int64_t timeout_ms_;
  std::unique_ptr<WeightSender> sender_;
  std::int64_t started_at_ms_ = 0;  // of the process in the group
};

}  // namespace buttress
