// The checks behind `--check` of a program: its own part of a run, without a start. `buttress
// launch --check` puts the parts together. Without LibTorch.
#pragma once

#include <cstdint>

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// Model and tokenizer, prompts, ports, certificates and tokens, folder and disk.
Findings CheckCoordinatorPart(const RunConfig& config);

// Model, reward, ports, certificates and tokens, memory and GPU of one worker, the run folder, and
// the coordinator if it is up.
Findings CheckWorkerPart(const RunConfig& config);

// Model, certificates and tokens, memory and GPUs of the `ranks` of this machine, and the
// coordinator if it is up. The first of them checks the ports and, on the first machine
// (`is_first`), the disk.
Findings CheckLearnerPart(const RunConfig& config, std::int64_t ranks, bool is_first);

}  // namespace buttress
