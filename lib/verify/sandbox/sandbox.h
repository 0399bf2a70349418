// Runs programs that nobody trusts, by bubblewrap: the machinery that holds is the kernel's, and it
// fails closed.
//
//   user, mount, pid, network, ipc, uts and cgroup namespaces of its own; as root, first another
//   user (65534) read-only /usr and what CodeConfig::read_only names; /tmp and /work in memory,
//   `disk_bytes` each; nothing else of the machine a seccomp filter: no sockets, no ptrace, no
//   mounts, no namespaces, no shared or anonymous files in memory (seccomp.cc) limits on CPU time,
//   address space, processes, files and their size; none of it can be raised again no environment,
//   no descriptor but stdin (a sealed file), stdout and stderr; no terminal past its time or its
//   output everything in its pid namespace is killed
//
// Open tries the escapes and refuses where one works, or where namespaces are not permitted; there
// is no weaker mode.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct SandboxOptions {
  std::string python = "/usr/bin/python3";  // runs the self-test
  std::vector<std::string> read_only;       // folders beside /usr
};

struct SandboxLimits {
  std::int64_t cpu_seconds = 2;           // of one process
  std::chrono::milliseconds wall{4000};   // of the run
  std::int64_t memory_bytes = 512 << 20;  // address space of one process
  std::int64_t disk_bytes = 16 << 20;     // of a file, of /tmp and of /work
  std::size_t output_bytes = 64 << 10;    // of stdout, and of stderr
  std::int64_t processes = 16;            // the sandbox's own three included
};

struct SandboxFile {
  std::string path;  // in the sandbox, below /work
  std::string_view bytes;
};

struct SandboxRun {
  std::vector<std::string> argv;   // argv[0] is a path in the sandbox; the folder is /work
  std::vector<SandboxFile> files;  // readable and executable, not writable
  std::string_view input;          // of stdin
  SandboxLimits limits;
};

enum class SandboxEnd { kExited, kCpuTime, kWallTime, kOutput };

struct SandboxResult {
  SandboxEnd end = SandboxEnd::kExited;
  int exit_code = 0;   // of a program that exited; 128 + signal if a signal ended it
  std::string output;  // stdout, at most output_bytes
  std::string errors;  // stderr, likewise
};

// Thread-safe.
class Sandbox {
 public:
  // Starts nothing that stays. kFailedPrecondition says what is missing, or which escape worked.
  static Result<std::unique_ptr<Sandbox>> Open(const SandboxOptions& options);

  virtual ~Sandbox() = default;

  // What the program did; anything it does, a crash and a breach of its limits included, is a
  // result. kUnavailable: the sandbox itself failed, and nothing is known about the program.
  virtual Result<SandboxResult> Run(const SandboxRun& run) const = 0;
};

}  // namespace buttress
