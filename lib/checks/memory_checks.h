// The memory and the GPUs that the processes of a run need of a machine, against what it has.
// Without LibTorch and the CUDA runtime: NVIDIA's driver is asked.
#pragma once

#include <cstdint>

#include "lib/checks/findings.h"
#include "lib/checks/model_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

// The bytes of a worker. They follow from the sizes of the model and the settings; programs and
// libraries themselves, some hundred MiB, are not among them.
struct MemoryNeed {
  double state = 0;   // there from the start: parameters
  double passes = 0;  // an upper estimate of what comes and goes: caches

  double most() const { return state + passes; }
};

// A worker with the embedded engine: the weights, and for the passes a full key-value cache and, on
// a CPU, the linear layers again in the layout of decoding. Nothing for the vLLM engine.
MemoryNeed WorkerMemory(const RunConfig& config, const ModelFacts& model);

// The processes of a run on one machine.
struct ProcessCounts {
  std::int64_t workers = 0;
  std::int64_t ranks = 0;
  std::int64_t job_ranks = 0;  // of the learner on all machines; 0: those here

  std::int64_t job() const { return job_ranks > 0 ? job_ranks : ranks; }
};

// What a machine has.
struct MachineMemory {
  std::int64_t limit = 0;      // of its programs together; 0: not known
  std::int64_t available = 0;  // free now; 0: not known
};

MachineMemory ThisMachine();

// What a learner rank may have of the machine: its part of what the workers there leave.
// REQUIRES: processes.ranks > 0.
double RankMemory(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
                  const MachineMemory& machine);

// The plan of a learner rank (learner_memory.h), and whether the processes that compute on CPUs fit
// into the memory together: an error if their states do not, or no stage of `zero: auto` does; a
// warning if a full cache and a full micro-batch do not; each with the settings that lower the
// largest part. Says nothing of a model whose configuration is not known.
void CheckMemory(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
                 const MachineMemory& machine, Findings& findings);

// Warns of a local.learner.reference that has no effect.
void CheckReference(const RunConfig& config, Findings& findings);

// Driver, number of GPUs against the processes that compute on them, and the memory of each GPU
// against what its process needs: an error if a full micro-batch of a rank does not fit. Where
// nothing of the run computes on a GPU, the check says that it was skipped.
void CheckGpus(const RunConfig& config, const ModelFacts& model, const ProcessCounts& processes,
               Findings& findings);

}  // namespace buttress
