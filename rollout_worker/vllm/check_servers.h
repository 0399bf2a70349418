// The questions of `rollout_worker --check` to the vLLM servers.
#pragma once

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// Probes each server of local.worker.vllm as the start of a worker does (VllmControl::Probe): its
// routes for weight updates, generation config, logprobs mode and what its log-probs describe. A
// server that is paused is resumed. Also compares its max_model_len with the lengths of the run.
void CheckVllmServers(const RunConfig& config, Findings& findings);

}  // namespace buttress
