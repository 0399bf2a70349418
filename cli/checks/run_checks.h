// The checks of `buttress launch` before it starts anything, and `buttress doctor` without starting
// the run. Without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/fleet/fleet.h"
#include "lib/base/report/status.h"
#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/config/run_config.h"

namespace CLI {
class App;
}

namespace buttress {

enum class CheckDepth : std::uint8_t {
  kQuick,  // what a start can wait for: files, ports, disk, memory, the first rows
  kAll,    // also 2,000 rows, the reward function and the servers
};

// Checks the run for a machine with `here` of its processes.
Findings CheckRun(const RunConfig& config, const ProcessCounts& here, CheckDepth depth);

// The configuration as it is passed to programs.
struct RunFile {
  std::string path;
  std::vector<std::string> overrides;

  // "--config", path, "--set", override, ...
  std::vector<std::string> Arguments() const;
};

// The machines of a run; without a file, this one alone.
struct HostsFlags {
  std::string path;
  std::string ssh = "ssh";

  // --hosts and --ssh.
  void AddTo(CLI::App& app);

  // Reads the file, if there is one, and adds what it implies to the overrides of `run`, whose
  // settings are `local` so far.
  Result<std::optional<Fleet>> Load(const LocalSettings& local, RunFile& run) const;
};

// Loads the configuration and checks the run with everything, also on other machines; if there are
// no errors, starts the programs with --check and asks the coordinator, if one is up. With `fresh`,
// nothing is resumed. A file that cannot be loaded is the only finding. REQUIRES: this process has
// one thread.
Findings CheckRunFile(RunFile file, const HostsFlags& hosts, bool fresh);

}  // namespace buttress
