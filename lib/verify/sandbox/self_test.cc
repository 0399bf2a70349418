#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/verify/extract.h"
#include "lib/verify/python_programs.h"
#include "lib/verify/sandbox/sandbox.h"

namespace buttress {
namespace {

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
  std::vector<std::string> escape = {python, "-I", "-c", std::string(kSandboxEscapes)};
  escape.insert(escape.end(), namespaces.begin(), namespaces.end());
  const Result<SandboxResult> tried = sandbox.Run({std::move(escape), {}, {}, patient});
  if (!tried.ok())
    return FailedPrecondition(
        tried.status().message() +
        "; code is scored in a sandbox only, which needs user namespaces (a container: " +
        "--security-opt seccomp=unconfined, or a host that allows them)");
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
