#include "cli/python/python_program.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/os/file.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxOutputBytes = 16 << 20;
constexpr int kNoProgram = 127;  // of env

std::vector<std::string> CommandLine(const std::string& interpreter, std::string_view program,
                                     std::vector<std::string> arguments) {
  std::vector<std::string> argv = {"/usr/bin/env", interpreter, "-c", std::string(program)};
  for (std::string& argument : arguments) argv.push_back(std::move(argument));
  return argv;
}

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
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid,
                            Spawn({.argv = CommandLine("python3", program, std::move(arguments)),
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
  std::vector<std::string> words = CommandLine(interpreter, program, std::move(arguments));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[1], argv.data() + 1);  // without env, whose own error would not say what to do
  return InvalidArgument(
      fmt::format("cannot run {}: {}; install Python 3.8 or newer, or name one that is there",
                  interpreter, std::strerror(errno)));
}

}  // namespace buttress
