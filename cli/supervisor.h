// Keeps a set of processes running: restarts with backoff and bound, first failure in one line,
// peak memory by process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/process.h"
#include "lib/base/retry.h"
#include "lib/base/status.h"

namespace buttress {

// Not thread-safe.
class Supervisor {
 public:
  Supervisor(std::string log_folder, int max_restarts);

  // Starts `argv` under the name `role`; its output goes to <log_folder>/<role>.log.
  Status Start(const std::string& role, std::vector<std::string> argv);

  // Reaps, restarts what is due. Not OK: a role failed for good, the message is the first failure
  // with the last line of its log.
  Status Tick();

  // The role has ended with exit code 0.
  bool Done(const std::string& role) const;

  bool Running(const std::string& role);

  void Signal(const std::string& role, int signal);

  // From now on an exit is an exit, whatever its code.
  void ExpectExits() { expect_exits_ = true; }

  // Signals the roles whose names begin with `prefix` and waits for them; false if some are still
  // running.
  bool Stop(const std::string& prefix, int signal, std::int64_t timeout_ms);

  int restarts() const { return restarts_; }

  // Largest VmHWM seen of each process, by role ("learner/1" for rank 1).
  const std::map<std::string, std::int64_t>& peak_rss_bytes() const { return peaks_; }

 private:
  struct Role {
    std::vector<std::string> argv;
    std::optional<Process> process;
    int restarts = 0;
    std::int64_t start_at_ms = 0;
    bool done = false;
    bool had_ranks = false;             // of an mpirun, on this machine
    std::int64_t without_ranks_ms = 0;  // since when it has none any more; 0: it has, or never had
  };

  Status StartNow(const std::string& name, Role& role);
  Status HandleExit(const std::string& name, Role& role);
  void SampleMemory();
  // Kills an mpirun whose ranks here have all left and that does not end: cut off from another
  // machine, it waits for that one for ever.
  void EndOrphaned(Role& learner, bool has_ranks);
  std::string LogPath(const std::string& role) const;

  std::string log_folder_;
  int max_restarts_;
  std::map<std::string, Role> roles_;
  Backoff backoff_;
  bool expect_exits_ = false;
  int restarts_ = 0;
  std::int64_t next_sample_ms_ = 0;
  std::map<std::string, std::int64_t> peaks_;
};

// The last error of a log with the lines that belong to it, else its last line; at most 600
// characters.
std::string LastWords(const std::string& log_path);

}  // namespace buttress
