// Keeps a set of processes running: restarts them with backoff up to a bound, which a long time of
// health renews, reports the first failure in one line, and records the peak memory of each
// process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/process.h"
#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"

namespace buttress {

// How often a role is restarted. A role whose process ran for `forgive_ms` has none of its earlier
// restarts counted: what ends it once in hours is no reason to end a run of weeks.
struct RestartBound {
  int most = 0;
  std::int64_t forgive_ms = 3600000;
};

// Not thread-safe.
class Supervisor {
 public:
  // `say` is given what happens to the roles, in a line or several without the last line feed.
  Supervisor(std::string log_folder, RestartBound bound,
             std::function<void(const std::string&)> say = Print, const Clock& clock = RealClock());

  // Whether the run ends when a role cannot be restarted, or continues without it.
  enum class Need : std::uint8_t { kRun, kOptional };

  // Starts `argv` under the name `role` and writes its output to <log_folder>/<role>.log.
  Status Start(const std::string& role, std::vector<std::string> argv, Need need = Need::kRun);

  // Reaps processes that ended and restarts those whose backoff has passed. Returns an error when a
  // role that the run needs cannot be restarted, and prints that of an optional one; the message
  // holds the failure and the last error of the role's log. NothingToLearn with its cause alone, if
  // the learner ended for that.
  Status Tick();

  // Returns whether the role has ended with exit code 0.
  bool Done(const std::string& role) const;

  // Returns whether an optional role could not be restarted.
  bool GivenUp(const std::string& role) const;

  // Accepts every exit from now on, whatever its code: nothing is restarted.
  void ExpectExits() { expect_exits_ = true; }

  // How long a stop waits: until `busy` has been false for `timeout_ms`, and for `timeout_ms` and
  // `busy_ms` at most. An empty `busy` is false.
  struct Patience {
    std::int64_t timeout_ms = 0;
    std::function<bool()> busy = {};
    std::int64_t busy_ms = 0;
  };

  // Sends `signal` (0: none) to the roles whose names begin with `prefix` and waits for their end.
  // Returns false if one of them still runs after that.
  bool Stop(const std::string& prefix, int signal, const Patience& patience);

  int restarts() const { return restarts_; }

  // Largest VmHWM, in bytes, that was seen of each process, by role ("learner/1" for rank 1).
  const std::map<std::string, std::int64_t>& peak_rss_bytes() const { return peaks_; }

 private:
  struct Role {
    std::vector<std::string> argv;
    std::optional<Process> process;
    std::int64_t oom_kills = 0;  // of this control group when the process started
    int restarts = 0;            // since it last ran for forgive_ms
    std::int64_t started_ms = 0;
    std::int64_t start_at_ms = 0;
    bool done = false;
    Need need = Need::kRun;
    bool given_up = false;
    bool had_ranks = false;             // an mpirun with ranks on this machine
    std::int64_t without_ranks_ms = 0;  // time at which its last local rank ended; 0: none ended
  };

  static void Print(const std::string& line);
  Status StartNow(const std::string& name, Role& role);
  Status HandleExit(const std::string& name, Role& role);
  Status Reap(const std::string& name, Role& role);
  void SampleMemory();
  // Kills an mpirun that does not end although all its ranks on this machine have ended. When it
  // has lost the connection to another machine, it would wait for that machine without bound.
  void KillStuckMpirun(Role& learner, bool has_ranks);
  std::string LogPath(const std::string& role) const;

  std::string log_folder_;
  RestartBound bound_;
  std::function<void(const std::string&)> say_;
  const Clock& clock_;
  std::map<std::string, Role> roles_;
  Backoff backoff_;
  bool expect_exits_ = false;
  int restarts_ = 0;
  std::int64_t next_sample_ms_ = 0;
  std::map<std::string, std::int64_t> peaks_;
};

// Returns the last error of a log with its continuation lines; of a log without errors the last
// line, or what mpirun says of the process that ended first. A long error is shortened.
std::string LastErrorInLog(const std::string& log_path);

}  // namespace buttress
