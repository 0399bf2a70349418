// Checks of the vLLM servers that a run starts (local.worker.vllm.launch), before they cost
// anything.
#pragma once

#include <cstdint>
#include <string>

#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

// The servers that are started on a machine with workers: one for each tensor_parallel of the gpus,
// one without gpus, and none where launch is off.
std::int64_t LaunchedServers(const VllmLaunchConfig& launch);

// The value of vLLM's --max-lora-rank for adapters of `rank`: the least that it takes. 0 if the
// rank is above all of them.
std::int64_t VllmLoraRank(std::int64_t rank);

// Returns the version of the vLLM whose program is `binary`: that of the package next to it
// (../lib/python*/site-packages/vllm-*.dist-info). Empty if there is none.
std::string VllmVersionOf(const std::string& binary);

// Checks the GPU that weights are sent from (local.worker.vllm.transfer), and the servers of a
// machine with `here`: the program and its version, that no others are named, the workers that
// share them, their GPUs against those there are and those of the learner's ranks, the attention
// heads, and the memory of a GPU against the weights, or with launch.colocate against a server
// beside a rank. Says nothing where the machine has no workers, and of servers nothing where the
// run starts none.
void CheckVllmLaunch(const RunConfig& config, const ModelFacts& model, const ProcessCounts& here,
                     Findings& findings);

}  // namespace buttress
