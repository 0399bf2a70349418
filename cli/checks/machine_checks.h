// Checks of this machine: programs, ports, folder, disk, certificates, servers.
#pragma once

#include <cstdint>

#include "cli/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

// coordinator, rollout_worker and learner stand beside this program, and mpirun is found.
void CheckPrograms(const LocalSettings& local, Findings& findings);

// Every port that is not 0 can be listened on, and no two settings name the same one. A port that
// is in use has two seconds to become free, because an earlier run may be ending.
void CheckPorts(const LocalSettings& local, Findings& findings);

// local.out can be made and written, and its disk has room for two checkpoints of a model of
// `parameters` parameters, the published weights and the payloads between checkpoints.
void CheckDisk(const RunConfig& config, std::int64_t parameters, Findings& findings);

// The files of local.security are there, match and are valid.
void CheckCredentials(const LocalSettings& local, Findings& findings);

// The vLLM servers answer, and serve local.worker.vllm.model.
void CheckServers(const VllmConfig& vllm, Findings& findings);

}  // namespace buttress
