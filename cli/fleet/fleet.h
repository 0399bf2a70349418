// The machines of `buttress launch --hosts`: what runs where, with which settings, and whether each
// machine has what it needs.
#pragma once

#include <string>
#include <vector>

#include "cli/fleet/hosts_file.h"
#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Not thread-safe.
class Fleet {
 public:
  // Reads the hosts file. kInvalidArgument if it cannot be used, or if its coordinator is to run on
  // a machine other than this one. `ssh` is the command that reaches the others.
  static Result<Fleet> Load(const std::string& hosts_file, const std::string& ssh);

  // The settings ("local.launch.workers=3") that the hosts imply over `local`: how many processes
  // there are, and addresses that the other machines reach where `local` has loopback.
  std::vector<std::string> Overrides(const LocalSettings& local) const;

  // Sends the configuration to every machine and checks there that its programs, model folder,
  // certificates, tokens and GPUs are what `config` wants. Logs go to <out>/logs/host-<name>.log.
  // One message names every machine that fails and why; kInvalidArgument if a restart cannot mend
  // it, kCancelled after an interrupt.
  Status Check(const RunConfig& config);

  // The command line of a worker, 0 <= `worker` < local.launch.workers. REQUIRES: Check() is OK.
  std::vector<std::string> WorkerCommand(const RunConfig& config, std::int64_t worker) const;

  // What mpirun is told of the hosts, before the program; empty if all ranks run here.
  // REQUIRES: Check() is OK.
  std::vector<std::string> MpirunArguments() const;

  // "node1, node2".
  std::string Names() const;

 private:
  struct Machine {
    Host host;
    std::vector<int> gpus;  // of its workers; empty: none is given
  };

  std::vector<std::string> FarCommand(const RunConfig& config, const Machine& machine,
                                      const std::vector<std::string>& agent) const;
  std::vector<std::string> CheckCommand(const RunConfig& config, const Machine& machine) const;
  Status Judge(const RunConfig& config, Machine& machine, int code, const std::string& log) const;

  std::vector<Machine> machines_;  // that of the coordinator first
  std::string ssh_;
  int port_ = 0;  // free on this machine when Load looked
};

// What one machine must have.
struct HostNeeds {
  std::string version;  // of the programs
  std::int64_t workers = 0;
  std::int64_t ranks = 0;
};

// Checks this machine against the needs; returns the number of its GPUs if its workers want some,
// else 0. kInvalidArgument names what is missing.
Result<int> CheckThisHost(const HostNeeds& needs, const RunConfig& config);

// The version of this program.
std::string ProgramVersion();

}  // namespace buttress
