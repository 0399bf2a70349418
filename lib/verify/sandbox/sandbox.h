// Runs untrusted programs under bubblewrap. The kernel enforces every restriction:
//
//   namespaces   user, mount, pid, network, ipc, uts and cgroup namespaces of the sandbox's own; a
//                caller that is root becomes user 65534 first
//   files        read-only /usr and SandboxOptions::read_only; /tmp and /work in memory, each of
//                `disk_bytes`; nothing else of the machine
//   seccomp      a list of the calls that programs need (seccomp.cc); no sockets, ptrace, mounts,
//                namespaces, or memory that is shared other than by a file of /tmp and /work
//   limits       CPU time, address space, open files and their size of every process, bubblewrap's
//                included; processes; the program cannot raise them
//   totals       memory and files of all processes together; memory by a control group of the
//                sandbox where this process may make one (memory_group.h), else, as files,
//                measured while they run
//   /proc        without the first process, which is bubblewrap's own
//   inheritance  no environment, no terminal, no descriptor except stdin (a sealed file), stdout
//                and stderr
//   termination  past its time, its output or a total, every process in the pid namespace is killed
//                by killing the namespace's first process
//
// Sandbox::Open attempts the known escapes and fails if one succeeds or if the machine does not
// permit namespaces. There is no weaker mode.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

struct SandboxOptions {
  std::string python = "/usr/bin/python3";  // interpreter of the self-test
  std::vector<std::string> read_only;       // folders that are visible besides /usr
};

struct SandboxLimits {
  std::int64_t cpu_seconds = 2;           // per process; 0: no bound
  std::chrono::milliseconds wall{4000};   // that a piece of the run may use (SandboxRun::take)
  std::chrono::milliseconds total{4000};  // that all pieces together may use, where there are more
  std::int64_t memory_bytes = 512 << 20;  // address space per process, and memory of all together
  std::int64_t disk_bytes = 16 << 20;     // per file, and for /tmp and /work each
  std::int64_t files = 4096;              // in /tmp and /work each
  std::size_t output_bytes = 64 << 10;    // for stdout of a piece and for stderr
  std::int64_t processes = 16;            // including the sandbox's own three
};

struct SandboxFile {
  std::string path;  // in the sandbox, below /work
  std::string_view bytes;
};

struct SandboxRun {
  std::vector<std::string> argv;   // argv[0] is a path in the sandbox; starts in /work
  std::vector<SandboxFile> files;  // readable and executable, not writable
  std::string_view input;          // the content of stdin
  SandboxLimits limits;
  // Called with the output that has arrived. Removes the pieces that are whole from its front, each
  // of which ends a piece of the run, and returns whether the run shall go on. Without it the run
  // is one piece.
  std::function<bool(std::string& output)> take = nullptr;
};

// kStarved: ten times the time of the run has passed, and the program did not get to use it,
// because the machine is too busy. kStopped: `take` has ended the run.
enum class SandboxEnd {
  kExited,
  kCpuTime,
  kWallTime,
  kStarved,
  kOutput,
  kMemory,
  kFiles,
  kStopped
};

struct SandboxResult {
  SandboxEnd end = SandboxEnd::kExited;
  int exit_code = 0;   // set if end is kExited; 128 + signal if a signal ended the program
  std::string output;  // stdout, at most output_bytes, without what `take` has removed
  std::string errors;  // stderr, at most output_bytes
  // From the start of the program to its end, without the time in which it waited for a CPU or a
  // disk and without the last moment, at most 50 ms.
  std::chrono::milliseconds used{};
};

class MemoryGroup;

// A program in the sandbox that goes on until it ends itself or this object is destroyed, which
// kills all its processes. Of its limits, those on time and output are the caller's to enforce.
// Not thread-safe.
class SandboxedProgram {
 public:
  ~SandboxedProgram();

  SandboxedProgram(const SandboxedProgram&) = delete;
  SandboxedProgram& operator=(const SandboxedProgram&) = delete;

  // kResourceExhausted if its processes together hold more memory or files than the limits allow.
  Status CheckTotals();

  // Memory of its processes, pages that they share counted once; 0 while the sandbox is set up.
  std::int64_t memory_bytes();

  // CPU time of its processes, and of their children that have ended.
  std::int64_t cpu_ms();

 private:
  friend class Sandbox;

  // `group` is null where the memory is measured.
  SandboxedProgram(pid_t pid, OwnedFd status, const SandboxLimits& limits,
                   std::unique_ptr<MemoryGroup> group);

  // The first process of the sandbox, once it is known.
  std::optional<pid_t> First();

  const pid_t pid_;
  const OwnedFd status_;  // bubblewrap's report
  const SandboxLimits limits_;
  const std::unique_ptr<MemoryGroup> group_;
  std::string report_;
  std::optional<pid_t> first_;
  OwnedFd handle_;  // of the first process
};

// What bounds the memory of the sandboxes that this process has opened, as a sentence for a person;
// empty if it has opened none. Thread-safe.
std::string OpenedSandboxText();

// Thread-safe.
class Sandbox {
 public:
  // Checks that the sandbox holds on this machine. Starts no process that outlives the call.
  // Returns kFailedPrecondition with what is missing or which escape succeeded.
  static Result<Sandbox> Open(const SandboxOptions& options);

  // Runs a program to its end. Whatever the program does, including a crash or a breach of its
  // limits, is a result. Returns kUnavailable if the sandbox itself failed and nothing is known
  // about the program.
  Result<SandboxResult> Run(const SandboxRun& run) const;

  // Starts a program with `stream` as its stdin and stdout and `errors` as its stderr. Returns
  // kUnavailable if it cannot be started. REQUIRES: run.files is empty; input and take are ignored.
  Result<std::unique_ptr<SandboxedProgram>> Start(const SandboxRun& run, int stream,
                                                  int errors) const;

 private:
  explicit Sandbox(const SandboxOptions& options) : options_(options) {}

  SandboxOptions options_;
};

// Attempts to escape from `sandbox`. Returns kFailedPrecondition with the restriction that does not
// hold, and OK if a harmless program runs and no escape succeeds.
Status TestSandbox(const Sandbox& sandbox, const std::string& python);

}  // namespace buttress
