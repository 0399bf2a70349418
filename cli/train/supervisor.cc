#include "cli/train/supervisor.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/memory.h"
#include "lib/base/report/status.h"

namespace buttress {
namespace {

constexpr std::int64_t kSampleMs = 500;
// mpirun ends well within this time after its last rank.
constexpr std::int64_t kStuckMpirunMs = 15000;
constexpr int kExitConfig = 2;
constexpr int kExitData = 4;
constexpr int kExitNothingToLearn = 5;
constexpr int kExitOutOfMemory = 6;

std::string ExitText(int code) {
  if (code > 128) return "killed by signal " + std::to_string(code - 128);
  return "exit " + std::to_string(code);
}

// Returns whether `text` starts with an error: a log line of level E ("2026-... E learner/0 ...")
// or the line that a program prints before it exits ("learner: INVALID_ARGUMENT: ...").
bool StartsWithError(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const std::string_view program :
       {"coordinator: ", "rollout_worker: ", "learner: ", "buttress: "}) {
    if (line.starts_with(program)) return true;
  }
  return line.find("Z E ") != std::string_view::npos;
}

// Takes the cause out of a last error with "nothing to learn: " in it: a program's message, or the
// quoted field of a log line.
std::string CauseIn(std::string_view error) {
  constexpr std::string_view kMark = "nothing to learn: ";
  const std::size_t mark = error.find(kMark);
  if (mark == std::string_view::npos) return std::string(error);
  std::string cause;
  for (const char c : error.substr(mark + kMark.size())) {
    if (c == '\n' || (c == '"' && !cause.ends_with('\\'))) break;
    if (c == '"') cause.pop_back();  // \" of a quoted field
    cause += c;
  }
  return cause;
}

// Returns what the last banner of mpirun says, between two lines of dashes, in one line. Without
// one that names a cause, the last line outside of banners.
std::string LastLine(std::string_view log) {
  std::string last = "(empty)", banner;
  bool inside = false;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (line.starts_with("-----")) {
      inside = !inside;
      if (inside) banner.clear();
    } else if (inside) {
      banner.append(banner.empty() || line.empty() ? "" : " ").append(line);
    } else if (!line.empty()) {
      last = line;
    }
  }
  return banner.empty() || banner.starts_with("Primary job") ? last : banner;
}

// The beginning of a long error, and its last line, which names a file with the rest.
std::string Shortened(std::string_view error) {
  constexpr std::size_t kLongest = 1000, kLongestLine = 300;
  if (error.size() <= kLongest) return std::string(error);
  const std::size_t last = error.rfind('\n');
  const bool has_last = last != std::string_view::npos && error.size() - last <= kLongestLine;
  const std::string_view begin = error.substr(0, kLongest);
  const std::string text(begin.substr(0, has_last ? begin.rfind('\n') : begin.size()));
  return has_last ? text + "\n  ..." + std::string(error.substr(last)) : text;
}

}  // namespace

Supervisor::Supervisor(std::string log_folder, RestartBound bound,
                       std::function<void(const std::string&)> say, const Clock& clock)
    : log_folder_(std::move(log_folder)),
      bound_(bound),
      say_(std::move(say)),
      clock_(clock),
      backoff_({.initial_ms = 200, .max_ms = 5000},
               static_cast<std::uint64_t>(RealClock().UnixMs())) {}

void Supervisor::Print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Status Supervisor::Start(const std::string& role, std::vector<std::string> argv, Need need) {
  Role& added = roles_[role];
  added.need = need;
  added.argv = std::move(argv);
  return StartNow(role, added);
}

Status Supervisor::StartNow(const std::string& name, Role& role) {
  BUTTRESS_ASSIGN_OR_RETURN(Process process, Process::Start(role.argv, LogPath(name)));
  role.process = process;
  role.oom_kills = OomKills();
  role.started_ms = clock_.MonotonicMs();
  role.start_at_ms = 0;
  role.had_ranks = false;
  role.without_ranks_ms = 0;
  return OkStatus();
}

Status Supervisor::Tick() {
  for (auto& [name, role] : roles_) {
    if (role.process && !role.process->Running()) BUTTRESS_RETURN_IF_ERROR(Reap(name, role));
    if (role.start_at_ms != 0 && clock_.MonotonicMs() >= role.start_at_ms) {
      BUTTRESS_RETURN_IF_ERROR(StartNow(name, role));
    }
  }
  if (RealClock().MonotonicMs() >= next_sample_ms_) SampleMemory();
  return OkStatus();
}

Status Supervisor::Reap(const std::string& name, Role& role) {
  const Status status = HandleExit(name, role);
  if (status.ok() || role.need == Need::kRun) return status;
  role.given_up = true;
  say_(fmt::format("launch: {}; the run continues without it", status.message()));
  return OkStatus();
}

bool Supervisor::GivenUp(const std::string& role) const {
  const auto found = roles_.find(role);
  return found != roles_.end() && found->second.given_up;
}

Status Supervisor::HandleExit(const std::string& name, Role& role) {
  const int code = role.process->exit_code();
  role.process.reset();
  if (code == 0) role.done = true;
  if (role.done || expect_exits_) return OkStatus();
  const std::string what = fmt::format("{} died ({})", name, ExitText(code));
  const std::string why = fmt::format("; its log ends: {}\nwhole log: {}",
                                      LastErrorInLog(LogPath(name)), LogPath(name));
  if (code == kExitConfig)
    return InvalidArgument(what + ": configuration error, which a restart cannot fix" + why);
  if (code == kExitData) return DataLoss(what + ": damaged data, which a restart cannot fix" + why);
  if (code == kExitNothingToLearn) return NothingToLearn(CauseIn(LastErrorInLog(LogPath(name))));
  if (code == kExitOutOfMemory)
    return OutOfMemory(what + ", as would be a restart with the same sizes" + why);
  if (code == 128 + SIGKILL && OomKills() > role.oom_kills) {
    return OutOfMemory(what +
                       " by the kernel because memory ran out, as would a restart with the same "
                       "sizes; lower local.worker.kv_cache_tokens or "
                       "local.learner.micro_batch_tokens, or raise the limit" +
                       why);
  }
  const std::int64_t now_ms = clock_.MonotonicMs();
  if (now_ms - role.started_ms >= bound_.forgive_ms) role.restarts = 0;
  if (role.restarts >= bound_.most) {
    return Unavailable(fmt::format("{} after {} restarts (local.launch.max_restarts){}", what,
                                   role.restarts, why));
  }
  ++role.restarts;
  ++restarts_;
  role.start_at_ms = now_ms + backoff_.NextMs();
  say_(fmt::format("launch: {}; restart {} of {}{}", what, role.restarts, bound_.most, why));
  return OkStatus();
}

bool Supervisor::Done(const std::string& role) const {
  const auto found = roles_.find(role);
  return found != roles_.end() && found->second.done;
}

bool Supervisor::Stop(const std::string& prefix, int signal, const Patience& patience) {
  const auto any_running = [&] {
    for (auto& [name, role] : roles_) {
      if (name.starts_with(prefix) && role.process && role.process->Running()) return true;
    }
    return false;
  };
  if (RealClock().MonotonicMs() >= next_sample_ms_) SampleMemory();
  for (auto& [name, role] : roles_) {
    if (!name.starts_with(prefix)) continue;
    role.start_at_ms = 0;
    if (signal != 0 && role.process && role.process->Running()) role.process->Signal(signal);
  }
  bool ended = false;
  std::int64_t quiet_since_ms = RealClock().MonotonicMs();
  WaitUntil(patience.timeout_ms + patience.busy_ms, [&] {
    ended = !any_running();
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (patience.busy && patience.busy()) quiet_since_ms = now_ms;
    return ended || now_ms - quiet_since_ms >= patience.timeout_ms;
  });
  return ended;
}

void Supervisor::SampleMemory() {
  next_sample_ms_ = RealClock().MonotonicMs() + kSampleMs;
  std::map<pid_t, std::string> role_of;
  for (const auto& [name, role] : roles_) {
    if (role.process) role_of[role.process->pid()] = name;
  }
  bool has_ranks = false;
  for (const ProcessInfo& info : Descendants()) {
    std::string name;
    if (const auto found = role_of.find(info.pid); found != role_of.end()) name = found->second;
    if (name.empty() || name == "learner") {
      const std::string rank = EnvironmentOf(info.pid, "OMPI_COMM_WORLD_RANK");
      if (!rank.empty() && info.name == "learner") {
        name = "learner/" + rank;
        has_ranks = true;
      }
      if (name == "learner") name = "mpirun";
    }
    // "buttress" is the near side of a program on another machine, whose memory is not seen here.
    if (name.empty() || info.name == "buttress") continue;
    std::int64_t& peak = peaks_[name];
    if (info.peak_rss_bytes > peak) peak = info.peak_rss_bytes;
  }
  if (const auto learner = roles_.find("learner"); learner != roles_.end())
    KillStuckMpirun(learner->second, has_ranks);
}

void Supervisor::KillStuckMpirun(Role& learner, bool has_ranks) {
  const std::int64_t now_ms = RealClock().MonotonicMs();
  if (!learner.process || has_ranks) {
    learner.had_ranks = has_ranks;
    learner.without_ranks_ms = 0;
  } else if (learner.had_ranks && learner.without_ranks_ms == 0) {
    learner.without_ranks_ms = now_ms;
  } else if (learner.had_ranks && now_ms - learner.without_ranks_ms > kStuckMpirunMs) {
    learner.had_ranks = false;
    say_("launch: all ranks on this machine have ended but mpirun has not; killing it");
    learner.process->Signal(SIGKILL);
  }
}

std::string Supervisor::LogPath(const std::string& role) const {
  return JoinPath(log_folder_, role + ".log");
}

std::string LastErrorInLog(const std::string& log_path) {
  constexpr std::size_t kTail = 64 << 10;
  auto text = ReadFile(log_path);
  if (!text.ok() || text->empty()) return "(empty)";
  std::string_view tail = *text;
  if (tail.size() > kTail) tail.remove_prefix(tail.size() - kTail);
  while (!tail.empty() && tail.back() == '\n') tail.remove_suffix(1);
  // An error may span several lines, so the result runs from the last line that starts an error to
  // the end of the log, without what mpirun adds in a banner of its own.
  std::size_t error = std::string_view::npos;
  for (std::size_t at = 0; at < tail.size(); at = tail.find('\n', at) + 1) {
    if (StartsWithError(tail.substr(at))) error = at;
    if (tail.find('\n', at) == std::string_view::npos) break;
  }
  if (error == std::string_view::npos) return Shortened(LastLine(tail));
  tail.remove_prefix(error);
  return Shortened(tail.substr(0, tail.find("\n-----")));
}

}  // namespace buttress
