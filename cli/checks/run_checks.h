// What `buttress launch` checks before it starts anything, and `buttress doctor` without starting
// anything. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/checks/findings.h"
#include "lib/config/run_config.h"

namespace buttress {

enum class CheckDepth : std::uint8_t {
  kQuick,  // what a start can wait for: files, ports, disk, the first rows
  kAll,    // also 2,000 rows, the reward function and the servers
};

Findings CheckRun(const RunConfig& config, CheckDepth depth);

// Loads the configuration and checks the run; a configuration that cannot be loaded is the only
// finding.
Findings CheckRunFile(const std::string& path, const std::vector<std::string>& overrides,
                      CheckDepth depth);

// Prints a line for each finding, or JSON: {"ok": ..., "checks": [{"check", "severity", "text"}]}.
// kInvalidArgument, without the list, if there is an error.
Status ReportChecks(const Findings& findings, bool as_json);

}  // namespace buttress
