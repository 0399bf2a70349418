// A child process with its output in a log file. It is told to stop when its parent dies, and it
// and all it started can be killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// REQUIRES: the calling process has one thread (fork); no gRPC or LibTorch object exists in it.
class Process {
 public:
  // Starts argv[0] in a process group of its own, standard output and error appended to `log_path`.
  static Result<Process> Start(const std::vector<std::string>& argv, const std::string& log_path);

  pid_t pid() const { return pid_; }

  // Looks whether it has ended, without waiting.
  bool Running();

  // 0 - 255, or 128 + signal. REQUIRES: !Running().
  int exit_code() const { return exit_code_; }

  void Signal(int signal) const;

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  bool running_ = true;
  int exit_code_ = 0;
};

// Orphans of our children become our children, so that nothing can slip away.
void BecomeSubreaper();

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;                 // of the program
  std::int64_t peak_rss_bytes = 0;  // VmHWM
};

// Every process below this one.
std::vector<ProcessInfo> Descendants();

// Value of an environment variable of another process, empty if it has none.
std::string EnvironmentOf(pid_t pid, const std::string& name);

// SIGKILLs every process below this one and reaps it; returns how many there were.
int KillDescendants();

// Waits up to `timeout_ms` for `done()`, looking every 50 ms.
bool WaitUntil(std::int64_t timeout_ms, const std::function<bool()>& done);

// Path of a program beside this one.
std::string SiblingProgram(const std::string& name);

}  // namespace buttress
