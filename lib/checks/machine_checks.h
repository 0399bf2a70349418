// Checks of this machine: programs, ports, folder, disk, certificates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checks/findings.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_config.h"

namespace buttress {

// The coordinator, rollout_worker and learner are next to this program, and mpirun is found.
void CheckPrograms(const LocalSettings& local, Findings& findings);

// A setting that makes a program listen.
struct ListenSetting {
  std::string key;
  std::string address;  // host:port or "off"
};

std::vector<ListenSetting> CoordinatorListeners(const LocalSettings& local);
std::vector<ListenSetting> WorkerListeners(const LocalSettings& local);
// Of the `ranks` on one machine, with those of rank 0 where `is_first`.
std::vector<ListenSetting> LearnerListeners(const LocalSettings& local, std::int64_t ranks,
                                            bool is_first);

// Listens on `address` (host:port) for a moment. kUnavailable if another process has the port,
// kInvalidArgument if this machine has no such address or may not use it.
Status TryListen(const std::string& address);

// Every port that is not 0 can be listened on, and no two settings name the same one. A port that
// is in use has two seconds to become free, because an earlier run may be ending.
void CheckPorts(const std::vector<ListenSetting>& listeners, Findings& findings);

// local.out can be made and written, and its disk has room for two checkpoints of a model of
// `parameters` parameters, the published weights and the payloads between checkpoints.
void CheckDisk(const RunConfig& config, std::int64_t parameters, Findings& findings);

// The files of local.security that `program` reads are there, match, are valid, and have the names
// that the addresses of this machine are advertised by.
void CheckCredentials(const LocalSettings& local, Program program, Findings& findings);

}  // namespace buttress
