// The machines of `buttress launch --hosts`: what runs where, with which settings, and whether each
// machine has what it needs. The hosts file has one machine a line:
//
//   # name           what it runs
//   node1            coordinator ranks=1 workers=1 address=10.0.0.1
//   admin@node2      ranks=1 workers=3
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/process.h"
#include "lib/base/report/status.h"
#include "lib/checks/findings.h"
#include "lib/checks/memory_checks.h"
#include "lib/config/run_config.h"

namespace buttress {

struct Host {
  std::string name;          // what ssh is given: a host, user@host, or an alias of its config
  std::string address;       // name or IPv4 address by which the other machines reach it
  bool coordinator = false;  // the coordinator runs there, and `buttress launch`
  std::int64_t workers = 0;
  std::int64_t ranks = 0;  // of the learner
};

// Reads the text of a hosts file; messages call it `file`. Exactly one machine is the coordinator's
// and has a rank; there is a worker, and no idle machine. kInvalidArgument with "FILE:LINE: ..." in
// a line per error.
Result<std::vector<Host>> ParseHosts(const std::string& text, const std::string& file);

struct HostAnswer;

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
  // certificates, tokens, memory and GPUs are what `config` wants. Logs go to
  // <out>/logs/host-<name>.log. One message names every machine that fails and why;
  // kInvalidArgument if a restart cannot fix it, kCancelled after an interrupt. Adds to `findings`
  // what is no error: how far the clocks are apart, whose run folders are one folder, and memory
  // that may not suffice.
  Status Check(const RunConfig& config, Findings& findings);

  // The processes on this machine.
  ProcessCounts Here() const;

  // The command line of a worker, 0 <= `worker` < local.launch.workers. REQUIRES: Check() is OK.
  std::vector<std::string> WorkerCommand(const RunConfig& config, std::int64_t worker) const;

  // The command lines of all vLLM servers that the run starts: those of each machine with workers.
  // REQUIRES: Check() is OK.
  std::vector<std::vector<std::string>> ServerCommands(const RunConfig& config) const;

  // The arguments of mpirun that name the hosts; empty if all ranks run here.
  // REQUIRES: Check() is OK.
  std::vector<std::string> MpirunArguments() const;

 private:
  struct Machine {
    Host host;
    std::vector<int> gpus = {};   // of its workers; empty: none is given
    std::vector<int> ports = {};  // of its vLLM servers
  };

  std::vector<std::string> FarCommand(const RunConfig& config, const Machine& machine,
                                      const std::vector<std::string>& agent) const;

  // The check of a machine, and when by this machine's clock it was started and seen to end (ms
  // since 1970; 0 if it has not ended).
  struct Asked {
    Process process;
    std::int64_t before_ms = 0;
    std::int64_t after_ms = 0;
  };

  // Checks all machines at once, and waits for a minute at most.
  Result<std::vector<Asked>> Ask(const RunConfig& config) const;
  Status Judge(const RunConfig& config, Machine& machine, const Asked& asked,
               const std::string& log, const HostAnswer& here, Findings& findings) const;

  std::vector<Machine> machines_;  // that of the coordinator first
  std::string ssh_;
  int port_ = 0;  // free on this machine when Load looked
};

// What the check of a machine answers, a line each: "gpus 2".
struct HostAnswer {
  int gpus = 0;               // 0 unless its workers want some
  std::int64_t clock_ms = 0;  // since 1970
  std::string model;          // digest of the files of the model folder
  std::string folder;         // what the launching machine left in its run folder; empty: nothing
  std::vector<std::string> warnings;
  std::vector<int> ports;  // free now, for the vLLM servers that it is to start

  std::string ToText() const;
  static HostAnswer FromText(const std::string& text);
};

// Where the launching machine leaves a word in its run folder, to see who has the same folder.
std::string FolderMarkPath(const std::string& out);

// Returns the mpirun of local.launch with all its arguments for the learner's ranks, up to the
// program. `hosts` are those of the machines (Fleet::MpirunArguments); empty if there are none.
std::vector<std::string> MpirunCommand(const LocalSettings& local,
                                       const std::vector<std::string>& hosts);

// Returns a GPU for each of local.launch.workers, of `visible`: the learner's ranks take the first
// ones, if they compute on GPUs, and each worker one of the next. Empty if launch has none to give:
// the workers' engines use no GPU, or local.worker.gpu names the one that they share.
// kInvalidArgument if there are too few.
Result<std::vector<int>> AssignWorkerGpus(const LocalSettings& local, int visible);

// Whether AssignWorkerGpus has GPUs to give.
bool WorkersNeedGpus(const LocalSettings& local);

// What one machine must have.
struct HostNeeds {
  std::string version;  // of the programs
  std::int64_t workers = 0;
  std::int64_t ranks = 0;
};

// Checks this machine against the needs. kInvalidArgument names what is missing.
Result<HostAnswer> CheckThisHost(const HostNeeds& needs, const RunConfig& config);

// Compares the clock of another machine, which was read between two moments of this machine's, and
// returns by how many milliseconds it is off at least; negative if it is behind.
std::int64_t ClockSkew(std::int64_t other_ms, std::int64_t before_ms, std::int64_t after_ms);

// The version of this program.
std::string ProgramVersion();

}  // namespace buttress
