#include "cli/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "lib/base/os/clock.h"
#include "lib/base/os/fd.h"

namespace buttress {
namespace {

constexpr int kExecFailed = 127;

int DecodeExit(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Runs in the child between fork and exec, where only async-signal-safe calls are allowed.
[[noreturn]] void Exec(char* const* argv, int in, int out, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kExecFailed);  // the parent died before the line above
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execvp(argv[0], argv);
  constexpr char kMessage[] = "cannot start the program\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(kExecFailed);
}

// The arguments as exec takes them, for as long as `argv` lives.
std::vector<char*> Pointers(const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

bool ReadInfo(pid_t pid, ProcessInfo& info) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  info.pid = pid;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Name:") words >> info.name;
    if (key == "PPid:") words >> info.parent;
    std::string state;
    if (key == "State:" && words >> state && state == "Z")
      return false;  // the process has ended and waits to be reaped
    if (key == "VmHWM:") {
      words >> info.peak_rss_bytes;
      info.peak_rss_bytes *= 1024;
    }
  }
  return info.parent != 0;
}

std::vector<ProcessInfo> AllProcesses() {
  std::vector<ProcessInfo> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    ProcessInfo info;
    if (const pid_t pid = std::atoi(name.c_str()); pid > 0 && ReadInfo(pid, info))
      all.push_back(info);
  }
  return all;
}

}  // namespace

std::string ShellWord(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,@%+-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Result<Process> Process::Start(const std::vector<std::string>& argv, const std::string& log_path) {
  const OwnedFd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0)
    return Unavailable("cannot write log " + log_path + ": " + std::strerror(errno));
  return StartOn(argv, OwnedFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get(), log.get());
}

Result<Process> Process::StartOn(const std::vector<std::string>& argv, int in, int out) {
  const std::vector<char*> arguments = Pointers(argv);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Exec(arguments.data(), in, out, parent);
  if (pid < 0) return Unavailable("cannot start " + argv[0] + ": " + std::strerror(errno));
  return Process(pid);
}

bool Process::Running() {
  if (!running_) return false;
  int status = 0;
  const pid_t done = ::waitpid(pid_, &status, WNOHANG);
  if (done == 0 || (done < 0 && errno == EINTR)) return true;
  running_ = false;
  exit_code_ = done == pid_ ? DecodeExit(status) : kExecFailed;
  return false;
}

void Process::Signal(int signal) const {
  if (running_) ::kill(pid_, signal);
}

std::string ReplaceProcess(const std::vector<std::string>& argv) {
  ::execvp(argv[0].c_str(), Pointers(argv).data());
  return std::strerror(errno);
}

Status BecomeProgram(const std::vector<std::string>& argv) {
  const std::string why = ReplaceProcess(argv);
  return NotFound(
      fmt::format("cannot run {}: {}; '{}' needs the full program, which deploy/build.sh builds "
                  "and the Python package lacks",
                  argv[0], why, argv[1]));
}

void SetChildSubreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<ProcessInfo> Descendants() {
  const std::vector<ProcessInfo> all = AllProcesses();
  std::set<pid_t> family = {::getpid()};
  std::vector<ProcessInfo> found;
  for (bool grown = true; grown;) {
    grown = false;
    for (const ProcessInfo& info : all) {
      if (!family.contains(info.parent) || !family.insert(info.pid).second) continue;
      found.push_back(info);
      grown = true;
    }
  }
  return found;
}

std::string EnvironmentOf(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

int KillDescendants() {
  constexpr std::int64_t kReapMs = 30000;
  std::set<pid_t> killed;
  // One look at all processes can miss the child of a process that dies meanwhile.
  int empty_looks = 0;
  WaitUntil(kReapMs, [&] {
    const std::vector<ProcessInfo> left = Descendants();
    for (const ProcessInfo& info : left) {
      if (::kill(info.pid, SIGKILL) == 0) killed.insert(info.pid);
    }
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(-1, nullptr, WNOHANG);
    } while (reaped > 0);
    // 0: a child is left. It looks ended as soon as its first thread is, and keeps its files and
    // locks until the last one is: one in a write to a busy disk, or of low priority.
    empty_looks = left.empty() && reaped < 0 ? empty_looks + 1 : 0;
    return empty_looks == 2;
  });
  return static_cast<int>(killed.size());
}

bool WaitUntil(std::int64_t timeout_ms, const std::function<bool()>& done) {
  const std::int64_t deadline = RealClock().MonotonicMs() + timeout_ms;
  while (!done()) {
    if (RealClock().MonotonicMs() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

std::string SiblingProgram(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace buttress
