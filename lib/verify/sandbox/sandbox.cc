#include "lib/verify/sandbox/sandbox.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "lib/base/clock.h"
#include "lib/verify/extract.h"
#include "lib/verify/process/spawn.h"
#include "lib/verify/sandbox/seccomp.h"

namespace buttress {
namespace {

constexpr char kBubblewrap[] = "/usr/bin/bwrap";
constexpr char kSetpriv[] = "/usr/bin/setpriv";
constexpr char kPrlimit[] = "/usr/bin/prlimit";
constexpr int kStatusFd = 3;
constexpr int kSeccompFd = 4;
constexpr int kFirstFileFd = 5;
constexpr std::size_t kMaxFiles = 16;
constexpr std::size_t kStatusBytes = 4096;
constexpr std::size_t kShownBytes = 300;
// How long the kernel may take to end killed processes.
constexpr std::int64_t kDyingMs = 5000;
constexpr int kCpuSignalExit = 128 + SIGXCPU;

void Append(std::vector<std::string>& to, std::initializer_list<std::string> more) {
  to.insert(to.end(), more);
}

std::vector<std::string> CommandLine(const SandboxOptions& options, const SandboxRun& run) {
  std::vector<std::string> line;
  const SandboxLimits& limits = run.limits;
  const std::string disk = std::to_string(limits.disk_bytes);
  if (::geteuid() == 0)
    Append(line,
           {kSetpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"});
  Append(line, {kBubblewrap, "--unshare-all", "--unshare-user", "--disable-userns",
                "--die-with-parent", "--new-session", "--clearenv"});
  Append(line, {"--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--json-status-fd",
                std::to_string(kStatusFd)});
  Append(line, {"--seccomp", std::to_string(kSeccompFd), "--ro-bind", "/usr", "/usr"});
  for (const char* folder : {"bin", "lib", "lib64"})
    Append(line, {"--symlink", std::string("usr/") + folder, std::string("/") + folder});
  Append(line, {"--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try",
                "/etc/ld.so.cache", "/etc/ld.so.cache"});
  for (const std::string& folder : options.read_only) Append(line, {"--ro-bind", folder, folder});
  Append(line, {"--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"});
  Append(line, {"--size", disk, "--tmpfs", "/tmp", "--size", disk, "--tmpfs", "/work"});
  for (std::size_t i = 0; i < run.files.size(); ++i)
    Append(line, {"--perms", "0555", "--ro-bind-data",
                  std::to_string(kFirstFileFd + static_cast<int>(i)), run.files[i].path});
  Append(line, {"--remount-ro", "/", "--chdir", "/work", "--setenv", "PATH", "/usr/bin", "--setenv",
                "HOME", "/work", "--setenv", "LANG", "C.UTF-8"});
  // The soft limit sends SIGXCPU, which distinguishes CPU time from other kills. The hard limit
  // sends SIGKILL one second later.
  Append(line, {"--", kPrlimit,
                "--cpu=" + std::to_string(limits.cpu_seconds) + ":" +
                    std::to_string(limits.cpu_seconds + 1)});
  Append(line, {"--as=" + std::to_string(limits.memory_bytes), "--fsize=" + disk,
                "--nproc=" + std::to_string(limits.processes)});
  Append(line, {"--nofile=64", "--core=0", "--"});
  line.insert(line.end(), run.argv.begin(), run.argv.end());
  return line;
}

// Returns the exit code in bubblewrap's status report; nullopt if the program never ran to its end.
std::optional<int> ExitCodeOf(std::string_view status) {
  constexpr std::string_view kKey = "\"exit-code\": ";
  const std::size_t at = status.rfind(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  int code = 0;
  for (const char c : status.substr(at + kKey.size())) {
    if (c < '0' || c > '9') break;
    code = code * 10 + (c - '0');
  }
  return code;
}

// The pipes between this process and a program.
struct Streams {
  Pipe output;
  Pipe errors;
  Pipe status;
};

Result<Streams> MakeStreams() {
  Streams streams;
  BUTTRESS_ASSIGN_OR_RETURN(streams.output, MakePipe());
  BUTTRESS_ASSIGN_OR_RETURN(streams.errors, MakePipe());
  BUTTRESS_ASSIGN_OR_RETURN(streams.status, MakePipe());
  return streams;
}

// Reads the pipes of a running program until all have closed. Kills the program when it exceeds a
// limit.
class Watch {
 public:
  Watch(pid_t pid, const Streams& streams, const SandboxLimits& limits)
      : pid_(pid), limits_(limits), deadline_ms_(RealClock().MonotonicMs() + limits.wall.count()) {
    ends_[0] = {streams.output.read.get(), POLLIN, 0};
    ends_[1] = {streams.errors.read.get(), POLLIN, 0};
    ends_[2] = {streams.status.read.get(), POLLIN, 0};
  }

  // Returns false if a killed process still holds a pipe after kDyingMs.
  bool UntilClosed() {
    while (Open()) {
      const std::int64_t left_ms = deadline_ms_ - RealClock().MonotonicMs();
      if (left_ms <= 0 && killed_) return false;
      if (left_ms <= 0) Kill(SandboxEnd::kWallTime);
      if (::poll(ends_.data(), ends_.size(),
                 static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 1000))) < 0 &&
          errno != EINTR)
        return false;
      const std::size_t bounds[] = {limits_.output_bytes, limits_.output_bytes, kStatusBytes};
      for (std::size_t i = 0; i < ends_.size(); ++i) {
        if (ends_[i].fd < 0 || ReadSome(ends_[i].fd, bounds[i], texts_[i])) continue;
        if (texts_[i].size() > bounds[i]) {
          texts_[i].resize(bounds[i]);
          if (!killed_) Kill(SandboxEnd::kOutput);
        }
        ends_[i].fd = -1;
      }
    }
    return true;
  }

  bool killed() const { return killed_; }

  SandboxEnd end() const { return end_; }

  std::string& output() { return texts_[0]; }

  std::string& errors() { return texts_[1]; }

  const std::string& status() const { return texts_[2]; }

 private:
  // The status pipe counts as well: bubblewrap holds it until every process in the sandbox is gone.
  bool Open() const { return ends_[0].fd >= 0 || ends_[1].fd >= 0 || ends_[2].fd >= 0; }

  // Kills bubblewrap. The kernel then ends the sandbox's first process and with it the whole pid
  // namespace.
  void Kill(SandboxEnd end) {
    end_ = end;
    killed_ = true;
    deadline_ms_ = RealClock().MonotonicMs() + kDyingMs;
    ::kill(-pid_, SIGKILL);
  }

  const pid_t pid_;
  const SandboxLimits& limits_;
  std::int64_t deadline_ms_;
  bool killed_ = false;
  SandboxEnd end_ = SandboxEnd::kExited;
  std::array<pollfd, 3> ends_;
  std::string texts_[3];
};

// Starts bubblewrap with the run's program and closes this process's copies of the write ends.
Result<pid_t> Start(const SandboxOptions& options, const SandboxRun& run, Streams& streams) {
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd input, MakeSealedFile(run.input));
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd filter, MakeSeccompFilter());
  std::vector<OwnedFd> files;
  SpawnRequest request{CommandLine(options, run), {}, {}};
  request.fds = {input.get(), streams.output.write.get(), streams.errors.write.get(),
                 streams.status.write.get(), filter.get()};
  for (const SandboxFile& file : run.files) {
    BUTTRESS_ASSIGN_OR_RETURN(OwnedFd content, MakeSealedFile(file.bytes));
    request.fds.push_back(content.get());
    files.push_back(std::move(content));
  }
  Result<pid_t> pid = Spawn(request);
  streams.output.write.Close();
  streams.errors.write.Close();
  streams.status.write.Close();
  return pid;
}

}  // namespace

Result<SandboxResult> Sandbox::Run(const SandboxRun& run) const {
  if (run.files.size() > kMaxFiles)
    return InvalidArgument(fmt::format("more than {} files in a sandbox", kMaxFiles));
  BUTTRESS_ASSIGN_OR_RETURN(Streams streams, MakeStreams());
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, Start(options_, run, streams));
  Watch watch(pid, streams, run.limits);
  const bool closed = watch.UntilClosed();
  KillAndReap(pid);
  if (!closed) return Unavailable("a program in the sandbox could not be killed");
  SandboxResult result{watch.end(), 0, std::move(watch.output()), std::move(watch.errors())};
  if (watch.killed()) return result;
  const std::optional<int> code = ExitCodeOf(watch.status());
  if (!code)
    return Unavailable(
        fmt::format("the sandbox did not start: {}", FirstBytes(Trim(result.errors), kShownBytes)));
  result.exit_code = *code;
  if (*code == kCpuSignalExit) result.end = SandboxEnd::kCpuTime;
  return result;
}

Result<Sandbox> Sandbox::Open(const SandboxOptions& options) {
  for (const char* program : {kBubblewrap, kPrlimit, kSetpriv}) {
    if (::access(program, X_OK) != 0)
      return FailedPrecondition(fmt::format(
          "no {}: code is scored in a sandbox only; install bubblewrap and util-linux", program));
  }
  Sandbox sandbox(options);
  BUTTRESS_RETURN_IF_ERROR(TestSandbox(sandbox, options.python));
  return sandbox;
}

}  // namespace buttress
