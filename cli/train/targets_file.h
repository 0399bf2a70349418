// <out>/targets.json: the addresses of every /metrics of a run, for file_sd_configs of Prometheus.
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Follows the addresses that the processes of a run write to its folder. Not thread-safe.
class TargetsFile {
 public:
  TargetsFile(std::string out, std::string run_name)
      : out_(std::move(out)), run_name_(std::move(run_name)) {}

  // Writes [{"targets": ["host:port"], "labels": {"run", "role", "id"}}, ...] if an address has
  // changed since the last call. Of a process that has ended the last address stays.
  Status Refresh();

 private:
  const std::string out_;
  const std::string run_name_;
  std::string written_;
};

}  // namespace buttress
