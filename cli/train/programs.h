// The processes of a launched run: which command line each has, on which machine and GPU, the order
// in which they start and stop, and <out>/targets.json: the addresses of every /metrics, for
// file_sd_configs of Prometheus.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/checks/run_checks.h"
#include "cli/fleet/fleet.h"
#include "cli/train/supervisor.h"
#include "cli/vllm/vllm_server.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// The threads of each worker on a machine with so many cores, where local.worker.threads is 0: what
// the ranks of the learner leave, shared out, and at least one.
std::int64_t WorkerThreads(const LocalSettings& local, std::int64_t cores);

// Not thread-safe.
class RunPrograms {
 public:
  // Without a fleet every process runs on this machine. `say` is that of Supervisor. The arguments
  // outlive the object.
  RunPrograms(const RunFile& file, const RunConfig& config, std::optional<Fleet> fleet,
              std::function<void(const std::string&)> say);

  // Checks the machines, or gives the workers of this one their GPUs and its vLLM servers their
  // ports. Returns the warnings of the
  // machines.
  Result<std::vector<std::string>> Prepare();

  // Starts coordinator, vLLM servers, workers, tracking, evaluator and learner. REQUIRES: Prepare()
  // is OK.
  Status Start();

  // Waits for the workers, to which the coordinator reports that the run has ended, and stops the
  // rest.
  void EndFinished();

  // Stops every process. With `checkpoint` the learner writes one first; `waits` is called while it
  // does.
  void Stop(bool checkpoint, const std::function<void()>& waits);

  Supervisor& supervisor() { return supervisor_; }

  // Appends the configuration file, the overrides of the user and `more` overrides to `argv`.
  std::vector<std::string> CommandLine(std::vector<std::string> argv,
                                       const std::vector<std::string>& more = {}) const;

 private:
  std::vector<std::string> WorkerCommandLine(std::int64_t worker) const;
  std::vector<std::vector<std::string>> ServerCommandLines() const;
  std::vector<std::string> LearnerCommandLine() const;
  void StopAllButLearner();
  Supervisor::Patience Clean() const;

  const RunFile& file_;
  const RunConfig& config_;
  std::optional<Fleet> fleet_;
  Supervisor supervisor_;
  std::vector<int> worker_gpus_;            // empty: no worker is given one
  std::vector<ReservedPort> server_ports_;  // of the vLLM servers on this machine, without a fleet
};

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
