#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/sandbox/sandbox.h"

namespace buttress {
namespace {

// Prints a line for each attempt that succeeds although it must fail, then "done". The arguments
// are the namespaces outside the sandbox.
constexpr std::string_view kEscapes = R"(
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)

def attempt(what, action):
    try:
        if action() is not False:
            print(what)
    except OSError:
        pass

attempt("reads /etc/passwd", lambda: open("/etc/passwd").read())
attempt("reads /root", lambda: os.listdir("/root"))
attempt("reads /home", lambda: os.listdir("/home"))
attempt("writes to /", lambda: open("/x", "w"))
attempt("writes to /usr", lambda: open("/usr/x", "w"))
attempt("writes to /dev", lambda: open("/dev/shm/x", "w"))
attempt("follows a link out",
        lambda: (os.symlink("/etc/shadow", "/tmp/link"), open("/tmp/link").read()))
attempt("opens a socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("opens a local socket", lambda: socket.socket(socket.AF_UNIX))
for namespace in sys.argv[1:]:
    name = namespace.split(":")[0]
    attempt("shares a namespace: " + name,
            lambda: os.readlink("/proc/self/ns/" + name) == namespace)
attempt("sees processes outside", lambda: len([p for p in os.listdir("/proc") if p.isdigit()]) > 4)
attempt("makes a user namespace", lambda: libc.unshare(0x10000000) == 0)
attempt("mounts", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
attempt("traces a process", lambda: libc.ptrace(0, 0, 0, 0) == 0)
attempt("makes a file in memory", lambda: libc.memfd_create(b"x", 0) >= 0)
attempt("changes the kernel", lambda: open("/proc/sys/kernel/hostname", "w"))
attempt("writes to the first process", lambda: open("/proc/1/mem", "r+b"))
attempt("sees bubblewrap", lambda: any(open("/proc/%s/comm" % p).read() == "bwrap\n"
                                       for p in os.listdir("/proc") if p.isdigit()
                                       and os.path.exists("/proc/%s/comm" % p)))
attempt("outlives its parent", lambda: libc.prctl(1, 0, 0, 0, 0) == 0)
attempt("has a variable of the environment",
        lambda: bool(set(os.environ) - {"PATH", "HOME", "LANG", "PWD", "LC_CTYPE"}))
attempt("has a descriptor", lambda: bool([f for f in os.listdir("/proc/self/fd") if int(f) > 3]))
children = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            libc.pause()
            os._exit(0)
        children.append(pid)
    print("starts 200 processes")
except OSError:
    pass
for pid in children:
    os.kill(pid, 9)
print("done")
)";

// Holds more memory in twelve processes than one may have.
constexpr std::string_view kForks = R"(
import os, time
for _ in range(12):
    if os.fork() == 0:
        held = b"x" * (50 << 20)
        time.sleep(1000)
time.sleep(1000)
)";

constexpr std::string_view kManyFiles = R"(
import time
for i in range(225000):
    open("/work/%d" % i, "w").close()
time.sleep(1000)
)";

// Returns "pid:[4026531836]" for each kind of namespace that the sandbox must not share. Empty if
// /proc does not show them.
std::vector<std::string> OwnNamespaces() {
  std::vector<std::string> namespaces;
  for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts"}) {
    std::error_code error;
    const std::filesystem::path link =
        std::filesystem::read_symlink(std::string("/proc/self/ns/") + name, error);
    if (error) return {};
    namespaces.push_back(link.string());
  }
  return namespaces;
}

Status Refuse(const std::string& what) {
  return FailedPrecondition("the sandbox does not hold: " + what +
                            "; code is not scored on this machine");
}

// Tries what the limits of a process do not bound.
Status TestTotals(const Sandbox& sandbox, const std::string& python) {
  const SandboxLimits limits{
      .cpu_seconds = 10, .wall = std::chrono::milliseconds(30000), .memory_bytes = 128 << 20};
  const auto end = [&](std::string_view program) {
    const auto run = sandbox.Run({{python, "-I", "-c", std::string(program)}, {}, {}, limits});
    return run.ok() ? run->end : SandboxEnd::kExited;
  };
  if (end(kForks) != SandboxEnd::kMemory)
    return Refuse("the memory of all processes together is not bounded");
  if (end(kManyFiles) != SandboxEnd::kFiles) return Refuse("the number of files is not bounded");
  return OkStatus();
}

}  // namespace

Status TestSandbox(const Sandbox& sandbox, const std::string& python) {
  const SandboxLimits patient{.cpu_seconds = 10, .wall = std::chrono::milliseconds(30000)};
  const std::vector<std::string> namespaces = OwnNamespaces();
  if (namespaces.empty()) return Refuse("/proc/self/ns cannot be read");
  std::vector<std::string> escape = {python, "-I", "-c", std::string(kEscapes)};
  escape.insert(escape.end(), namespaces.begin(), namespaces.end());
  const Result<SandboxResult> tried = sandbox.Run({std::move(escape), {}, {}, patient});
  if (!tried.ok()) {
    return FailedPrecondition(
        tried.status().message() +
        "; code is scored in a sandbox only, which needs user namespaces (a container: " +
        "--security-opt seccomp=unconfined, or a host that allows them)");
  }
  if (tried->output != "done\n")
    return Refuse(fmt::format("'{}' {}", FirstBytes(Trim(tried->output), kShownBytes),
                              FirstBytes(Trim(tried->errors), kShownBytes)));
  const SandboxLimits short_time{.cpu_seconds = 10, .wall = std::chrono::milliseconds(300)};
  const Result<SandboxResult> slept = sandbox.Run({{"/usr/bin/sleep", "1000"}, {}, {}, short_time});
  if (!slept.ok() || slept->end != SandboxEnd::kWallTime)
    return Refuse("a program that sleeps is not ended");
  const Result<SandboxResult> flooded = sandbox.Run({{"/usr/bin/yes"}, {}, {}, patient});
  if (!flooded.ok() || flooded->end != SandboxEnd::kOutput)
    return Refuse("a flood of output is not ended");
  return TestTotals(sandbox, python);
}

}  // namespace buttress
