// Checks that start programs of the run with --check, which compute what only they can: whether
// mpirun starts the ranks on their machines, MPI, NCCL and the CUDA library work, and the vLLM
// servers were started with what a run needs.
#pragma once

#include <string>
#include <vector>

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// coordinator, rollout_worker and learner stand next to this program, and mpirun is found.
void CheckPrograms(const LocalSettings& local, Findings& findings);

// Starts all ranks of the learner by mpirun as `buttress launch` does, with --check, and waits for
// two minutes at most. `settings` is the configuration on their command line ("--config", FILE,
// "--set", ...), `hosts` that of Fleet::MpirunArguments. REQUIRES: this process has one thread.
void CheckLearnerJob(const RunConfig& config, const std::vector<std::string>& settings,
                     const std::vector<std::string>& hosts, Findings& findings);

// Adds what `rollout_worker --check` finds and `findings` lacks. REQUIRES: this process has one
// thread.
void CheckWorkerProgram(const std::vector<std::string>& settings, Findings& findings);

}  // namespace buttress
