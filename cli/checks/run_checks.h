// What `buttress launch` checks before it starts anything, and `buttress doctor` without starting
// the run. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

enum class CheckDepth : std::uint8_t {
  kQuick,  // what a start can wait for: files, ports, disk, memory, the first rows
  kAll,    // also 2,000 rows, the reward function and the servers
};

// Checks the run for a machine with `here` of its processes.
Findings CheckRun(const RunConfig& config, const ProcessCounts& here, CheckDepth depth);

// The configuration as programs are told it.
struct RunFile {
  std::string path;
  std::vector<std::string> overrides;

  // "--config", path, "--set", override, ...
  std::vector<std::string> Arguments() const;
};

// Starts the programs with --check (program_runs.h; `hosts` as there) if there are no errors yet,
// and then asks the coordinator, if one is up. REQUIRES: this process has one thread.
void CheckWithPrograms(const RunConfig& config, const RunFile& file,
                       const std::vector<std::string>& hosts, Findings& findings);

// Loads the configuration and checks the run with everything; a configuration that cannot be loaded
// is the only finding.
Findings CheckRunFile(const RunFile& file);

}  // namespace buttress
