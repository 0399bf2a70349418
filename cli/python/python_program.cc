#include "cli/python/python_program.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/process.h"
#include "lib/base/os/file.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxOutputBytes = 16 << 20;
constexpr int kNoProgram = 127;  // of env

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  return environment;
}

}  // namespace

Result<std::string> RunPython(std::string_view program, std::vector<std::string> arguments) {
  const OwnedFd output(::memfd_create("output", MFD_CLOEXEC));
  if (output.get() < 0) return Unavailable(std::string("memfd_create: ") + std::strerror(errno));
  arguments.insert(arguments.begin(), {"/usr/bin/env", "python3", "-c", std::string(program)});
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid,
                            Spawn({.argv = std::move(arguments),
                                   .environment = OwnEnvironment(),
                                   .fds = {STDIN_FILENO, output.get(), STDERR_FILENO}}));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string path = "/proc/self/fd/" + std::to_string(output.get());
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxOutputBytes));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram && text.empty())
    text = "this command needs python3, which is not found; install Python 3.8 or newer";
  return InvalidArgument(text.empty() ? "the Python program failed" : text);
}

Status ExecPython(const std::string& interpreter, std::string_view program,
                  std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {interpreter, "-c", std::string(program)});
  return InvalidArgument(
      fmt::format("cannot run {}: {}; install Python 3.8 or newer, or name one that is there",
                  interpreter, ReplaceProcess(arguments)));
}

}  // namespace buttress
