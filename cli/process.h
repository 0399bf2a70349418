// Child processes whose output goes to a log file. The kernel sends a child SIGTERM when its parent
// dies, and KillDescendants() ends every process that a child has started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Returns `word` for a POSIX shell: in quotes, unless it has no character that needs them.
std::string ShellWord(const std::string& word);

// REQUIRES: the calling process has one thread and no gRPC or LibTorch object, because Start forks.
class Process {
 public:
  // Starts argv[0] in its own process group and appends its standard output and error to
  // `log_path`.
  static Result<Process> Start(const std::vector<std::string>& argv, const std::string& log_path);

  // Starts argv[0] as Start does, with the descriptor `in` as its standard input and `out` as its
  // standard output and error. The caller keeps both.
  static Result<Process> StartOn(const std::vector<std::string>& argv, int in, int out);

  pid_t pid() const { return pid_; }

  // Returns whether the process still runs; does not block.
  bool Running();

  // The exit code, 0 to 255, or 128 + the signal that ended the process. REQUIRES: !Running().
  int exit_code() const { return exit_code_; }

  void Signal(int signal) const;

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool running_ = true;
  int exit_code_ = 0;
};

// Replaces this process by argv[0], a path or a name on PATH. Returns only if that fails: why.
std::string ReplaceProcess(const std::vector<std::string>& argv);

// Replaces this process by a program of the build, argv[0], with its command argv[1]. Returns only
// if that fails: kNotFound, which says where the program comes from.
Status BecomeProgram(const std::vector<std::string>& argv);

// Makes this process the parent of orphaned descendants, so that Descendants() finds every process
// of a run.
void SetChildSubreaper();

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;                 // name of the program
  std::int64_t peak_rss_bytes = 0;  // VmHWM
};

// Returns every process that descends from this one.
std::vector<ProcessInfo> Descendants();

// Returns the value of an environment variable of another process, or "" if it is not set.
std::string EnvironmentOf(pid_t pid, const std::string& name);

// Kills (SIGKILL) and reaps every descendant of this process; returns their number.
int KillDescendants();

// Polls `done` every 50 ms until it returns true or `timeout_ms` has passed; returns its last
// result.
bool WaitUntil(std::int64_t timeout_ms, const std::function<bool()>& done);

// Returns the path of a program in the folder of this program.
std::string SiblingProgram(const std::string& name);

}  // namespace buttress
