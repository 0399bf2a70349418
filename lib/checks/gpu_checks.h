// The check that the GPUs of this machine are enough for its part of a run. Without LibTorch and
// the CUDA runtime: NVIDIA's driver is asked.
#pragma once

#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

// Driver, number of GPUs against the processes that compute on them, and the memory of each GPU
// against what its process needs. Where nothing of the run computes on a GPU, the check says that
// it was skipped.
void CheckGpus(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
               Findings& findings);

}  // namespace buttress
