// How a server gets weights: which of the ways of local.worker.vllm.weights it takes, and vLLM's
// native transfers by NCCL and by memory that server and worker share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// The name under which servers serve the adapters of a version.
inline constexpr char kAdapterModel[] = "buttress-adapters";

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

// A server that is to get weights.
struct WeightTarget {
  TransferFacts facts;
  std::int64_t started_at_ms = 0;  // of its process
  std::vector<std::int64_t> gpus;  // GpusOfServer
};

// A way to one server. Not thread-safe.
class WeightWay {
 public:
  virtual ~WeightWay() = default;

  // Prepares the process of the server, unless it is prepared. The server may serve meanwhile.
  virtual Status Join(const WeightTarget&, const WeightPost&) { return OkStatus(); }

  // Brings the server the tensors of a safetensors folder; native transfers tag them as `version`.
  // After an error its weights are undefined. REQUIRES: Join, and the server is paused.
  virtual Status Send(const std::string& folder, const std::string& version,
                      const WeightPost& post) = 0;
};

// Returns every way that ChooseTransfer may choose:
//   file  the server reads the folder;
//   lora  it reads a folder of peft, and serves it as kAdapterModel;
//   nccl  its processes and this one, rank 0, are a group of their own, so that a server which
//         fails costs no other; an error ends the group;
//   ipc   it maps a buffer on each of its GPUs. kFailedPrecondition names a tensor that is larger.
std::map<VllmWeights, std::unique_ptr<WeightWay>> MakeWeightWays(const VllmConfig& config);

}  // namespace buttress
