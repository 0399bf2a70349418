#include "cli/fleet/ssh_session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <utility>

#include "cli/process.h"
#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/memory.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/status.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

constexpr int kSshFailed = 255;
constexpr int kEnvironment = 3;
// A connection that ends sooner was not made; a machine that restarts is back within kReachMs.
constexpr std::int64_t kShortMs = 15000;
constexpr std::int64_t kReachMs = 120000;
constexpr std::int64_t kReceiveMs = 20000;
constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::chrono::milliseconds kTurn(50);

std::int64_t NowMs() { return RealClock().MonotonicMs(); }

void Say(const std::string& line) {
  std::fprintf(stderr, "buttress: %s\n", line.c_str());
  std::fflush(stderr);
}

// The ssh of a session and the pipe to its standard input.
class Connection {
 public:
  static Result<Connection> Open(const SshSession& session, std::string config) {
    BUTTRESS_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
    ::fcntl(pipe.read.get(), F_SETFL, 0);
    ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
    std::vector<std::string> argv = SshCommand(session.ssh);
    std::string command;
    for (const std::string& word : session.far)
      command += (command.empty() ? "" : " ") + ShellWord(word);
    argv.insert(argv.end(), {"--", session.host, command});
    BUTTRESS_ASSIGN_OR_RETURN(const Process process,
                              Process::StartOn(argv, pipe.read.get(), STDOUT_FILENO));
    return Connection(process, std::move(pipe.write), std::move(config));
  }

  // Sends what is due. Returns whether the ssh runs.
  bool Turn() {
    if (NowMs() >= next_beat_ms_ && unsent_.empty()) {
      unsent_ = ".";
      next_beat_ms_ = NowMs() + kBeatMs;
    }
    if (fd_.get() >= 0 && !unsent_.empty()) {
      const ssize_t sent = ::write(fd_.get(), unsent_.data(), unsent_.size());
      if (sent > 0) unsent_.erase(0, static_cast<std::size_t>(sent));
    }
    return process_.Running();
  }

  // Tells the agent to stop the program.
  void Close() { fd_.Close(); }

  void Kill() const { process_.Signal(SIGKILL); }

  int exit_code() const { return process_.exit_code(); }

 private:
  Connection(Process process, OwnedFd fd, std::string config)
      : process_(process),
        fd_(std::move(fd)),
        unsent_(std::to_string(config.size()) + "\n" + config),
        next_beat_ms_(NowMs() + kBeatMs) {}

  Process process_;
  OwnedFd fd_;
  std::string unsent_;
  std::int64_t next_beat_ms_;
};

// Serves a connection to its end; returns the exit status of its ssh.
int Serve(Connection& connection, std::int64_t stop_ms) {
  std::int64_t kill_at_ms = 0;
  while (connection.Turn()) {
    if (WaitForShutdown(kTurn) && kill_at_ms == 0) {
      connection.Close();
      kill_at_ms = NowMs() + stop_ms + kBeatMs;
    }
    if (kill_at_ms != 0) {
      ::usleep(static_cast<useconds_t>(kTurn / std::chrono::microseconds(1)));
      if (NowMs() >= kill_at_ms) connection.Kill();
    }
  }
  connection.Close();
  return connection.exit_code();
}

// What the near side sends, seen from the agent.
class NearSide {
 public:
  // Waits for up to `wait_ms` for bytes. Returns false when there will be none: the connection is
  // closed or silent.
  bool Receive(std::int64_t wait_ms) {
    pollfd in = {STDIN_FILENO, POLLIN, 0};
    if (::poll(&in, 1, static_cast<int>(wait_ms)) > 0) {
      char bytes[4096];
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n == 0 || (n < 0 && errno != EINTR)) return false;
      if (n > 0) heard_ms_ = NowMs();
      if (n > 0 && keep_) text_.append(bytes, static_cast<std::size_t>(n));
    }
    return NowMs() - heard_ms_ < kLostMs;
  }

  // Returns the configuration, once it is here.
  Result<std::string> Config() {
    const std::int64_t deadline_ms = NowMs() + kReceiveMs;
    while (NowMs() < deadline_ms && text_.size() < 2 * kMaxConfigBytes) {
      const std::size_t line = text_.find('\n');
      const std::size_t size =
          line == std::string::npos ? 0 : static_cast<std::size_t>(std::atoll(text_.c_str()));
      if (size > 0 && size <= kMaxConfigBytes && text_.size() > line + size) {
        keep_ = false;
        return text_.substr(line + 1, size);
      }
      if (!Receive(kTurn.count())) break;
    }
    return Unavailable(
        "no configuration came over ssh within 20 s; start this by `buttress launch "
        "--hosts`, which sends it");
  }

 private:
  std::string text_;
  bool keep_ = true;
  std::int64_t heard_ms_ = NowMs();
};

// Takes the lock of the role, which the agent of an earlier connection holds until its program has
// ended. It stays until this process ends.
Status LockRole(const FarProgram& program, NearSide& near) {
  const std::string path = JoinPath(program.out, program.role + ".lock");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return Unavailable("cannot write " + path + "; it must be no link");
  const std::int64_t deadline_ms = NowMs() + kLostMs + program.stop_ms + kBeatMs;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (NowMs() >= deadline_ms || !near.Receive(kTurn.count()))
      return Unavailable("the " + program.role + " of an earlier connection does not end: " + path +
                         " is locked");
  }
  return OkStatus();
}

// Ends the program and all it has started.
void StopProgram(Process& process, std::int64_t stop_ms) {
  process.Signal(SIGTERM);
  WaitUntil(stop_ms, [&] { return !process.Running(); });
  process.Signal(SIGKILL);
  WaitUntil(kBeatMs, [&] { return !process.Running(); });
}

}  // namespace

std::vector<std::string> SshCommand(const std::string& ssh) {
  std::vector<std::string> argv;
  std::istringstream words(ssh);
  for (std::string word; words >> word;) argv.push_back(word);
  const std::string beat = std::to_string(kBeatMs / 1000);
  argv.insert(argv.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                           "ServerAliveInterval=" + beat, "-o",
                           "ServerAliveCountMax=" + std::to_string(kLostMs / kBeatMs)});
  return argv;
}

int RunSession(const SshSession& session) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::int64_t give_up_ms = NowMs() + (session.retry ? kReachMs : 0);
  Backoff backoff({.initial_ms = 500, .max_ms = 5000},
                  static_cast<std::uint64_t>(RealClock().UnixMs()));
  while (true) {
    const auto config = ReadFile(session.config, kMaxConfigBytes);
    const std::int64_t started_ms = NowMs();
    auto connection = config.ok() ? Connection::Open(session, *config) : config.status();
    if (!connection.ok()) {
      Say(connection.status().message());
      return kEnvironment;
    }
    const int code = Serve(*connection, session.stop_ms);
    if (code != kSshFailed) return code;
    if (ShutdownRequested()) return kEnvironment;
    const bool reached = NowMs() - started_ms >= kShortMs;
    Say(fmt::format("{} {}: ssh ended with status 255", session.host,
                    reached ? "lost the connection" : "is not reached"));
    if (reached || NowMs() >= give_up_ms) return kEnvironment;
    if (WaitForShutdown(std::chrono::milliseconds(backoff.NextMs()))) return kEnvironment;
  }
}

std::string SentConfigPath(const std::string& out) { return JoinPath(out, "launch.yaml"); }

Result<int> RunFarProgram(const FarProgram& program) {
  std::signal(SIGPIPE, SIG_IGN);
  SetChildSubreaper();
  NearSide near;
  BUTTRESS_ASSIGN_OR_RETURN(const std::string config, near.Config());
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(program.out));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(SentConfigPath(program.out), config));
  if (program.argv.empty()) return 0;
  BUTTRESS_RETURN_IF_ERROR(LockRole(program, near));
  const std::int64_t oom_kills = OomKills();
  const OwnedFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  BUTTRESS_ASSIGN_OR_RETURN(Process process,
                            Process::StartOn(program.argv, null.get(), STDOUT_FILENO));
  while (process.Running()) {
    if (!near.Receive(kTurn.count()) || ShutdownRequested()) StopProgram(process, program.stop_ms);
  }
  KillDescendants();
  if (process.exit_code() == 128 + SIGKILL && OomKills() > oom_kills)
    return OutOfMemory("the kernel killed " + program.role + " because memory ran out");
  return process.exit_code();
}

}  // namespace buttress
