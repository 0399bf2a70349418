#include "lib/verify/sandbox/sandbox.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "lib/base/os/clock.h"
#include "lib/verify/extract.h"
#include "lib/verify/process/spawn.h"
#include "lib/verify/sandbox/memory_group.h"
#include "lib/verify/sandbox/seccomp.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr char kBubblewrap[] = "/usr/bin/bwrap";
constexpr char kSetpriv[] = "/usr/bin/setpriv";
constexpr char kPrlimit[] = "/usr/bin/prlimit";
constexpr char kChoom[] = "/usr/bin/choom";
constexpr int kStatusFd = 3;
constexpr int kSeccompFd = 4;
constexpr int kFirstFileFd = 5;
constexpr std::size_t kMaxFiles = 16;
constexpr std::size_t kStatusBytes = 4096;
// How long the kernel may take to end killed processes.
constexpr std::int64_t kDyingMs = 5000;
// How long bubblewrap may take to make the namespaces, on a machine that is busy.
constexpr std::int64_t kStartingMs = 30000;
// How long a program may exceed a total unseen. Memory, which grows by GiB a second, is looked at
// sooner where that takes a tenth of the time at most.
constexpr std::int64_t kWeighMs = 10;
constexpr std::int64_t kLookMs = 50;
// How many times its time a program may take on a busy machine.
constexpr std::int64_t kPatience = 10;
constexpr int kCpuSignalExit = 128 + SIGXCPU;

void Append(std::vector<std::string>& to, std::initializer_list<std::string> more) {
  to.insert(to.end(), more);
}

// Bubblewrap writes the files of the run itself, which may be larger than those of the program.
std::int64_t LargestFile(const SandboxRun& run) {
  std::int64_t bytes = run.limits.disk_bytes;
  for (const SandboxFile& file : run.files)
    bytes = std::max(bytes, static_cast<std::int64_t>(file.bytes.size()));
  return bytes;
}

// Returns the group of a sandbox with `limits`; null where this process has no part of the tree of
// groups, and the memory is measured.
Result<std::unique_ptr<MemoryGroup>> GroupFor(const SandboxLimits& limits) {
  const Result<GroupParent>& parent = GroupParentOfProcess();
  if (!parent.ok()) return std::unique_ptr<MemoryGroup>();
  return MemoryGroup::Make(*parent, limits.memory_bytes, limits.processes);
}

// `group` may be null.
std::vector<std::string> CommandLine(const SandboxOptions& options, const SandboxRun& run,
                                     const MemoryGroup* group) {
  std::vector<std::string> line;
  if (group != nullptr) line = group->Enter();
  const SandboxLimits& limits = run.limits;
  const std::string disk = std::to_string(limits.disk_bytes);
  // Where the memory of the machine or the container runs out, the program shall end and not the
  // worker. A caller without CAP_SYS_RESOURCE cannot keep the program from undoing it.
  if (::access(kChoom, X_OK) == 0) Append(line, {kChoom, "-n", "1000", "--"});
  if (::geteuid() == 0)
    Append(line,
           {kSetpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--"});
  // Limits bind bubblewrap's own processes too. The soft limit of CPU time sends SIGXCPU, which
  // distinguishes it from other kills. The hard limit sends SIGKILL one second later.
  const std::string cpu = limits.cpu_seconds == 0 ? "unlimited"
                                                  : std::to_string(limits.cpu_seconds) + ":" +
                                                        std::to_string(limits.cpu_seconds + 1);
  Append(line, {kPrlimit, "--cpu=" + cpu, "--as=" + std::to_string(limits.memory_bytes),
                "--fsize=" + std::to_string(LargestFile(run)), "--nofile=64", "--core=0", "--"});
  Append(line, {kBubblewrap, "--unshare-all", "--unshare-user", "--disable-userns",
                "--die-with-parent", "--new-session", "--clearenv"});
  Append(line, {"--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--json-status-fd",
                std::to_string(kStatusFd)});
  Append(line, {"--seccomp", std::to_string(kSeccompFd), "--ro-bind", "/usr", "/usr"});
  for (const char* folder : {"bin", "lib", "lib64"})
    Append(line, {"--symlink", std::string("usr/") + folder, std::string("/") + folder});
  Append(line, {"--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try",
                "/etc/ld.so.cache", "/etc/ld.so.cache"});
  // Who could write to the memory of the first process would outlive the run.
  Append(line,
         {"--proc", "/proc", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"});
  // A shared mapping of /dev/zero is memory that no limit counts.
  Append(line, {"--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero", "--remount-ro", "/dev"});
  Append(line, {"--size", disk, "--tmpfs", "/tmp", "--size", disk, "--tmpfs", "/work"});
  for (const std::string& folder : options.read_only) Append(line, {"--ro-bind", folder, folder});
  for (std::size_t i = 0; i < run.files.size(); ++i)
    Append(line, {"--perms", "0555", "--ro-bind-data",
                  std::to_string(kFirstFileFd + static_cast<int>(i)), run.files[i].path});
  Append(line, {"--remount-ro", "/", "--chdir", "/work", "--setenv", "PATH", "/usr/bin", "--setenv",
                "HOME", "/work", "--setenv", "LANG", "C.UTF-8"});
  // Outside, this limit would count the processes of all sandboxes together.
  Append(line, {"--", kPrlimit, "--nproc=" + std::to_string(limits.processes), "--"});
  line.insert(line.end(), run.argv.begin(), run.argv.end());
  return line;
}

// Returns the last number under `key` ("exit-code", "child-pid") in bubblewrap's status report;
// nullopt if there is none yet.
std::optional<int> NumberIn(std::string_view status, std::string_view key) {
  const std::string text = fmt::format("\"{}\": ", key);
  const std::size_t at = status.rfind(text);
  if (at == std::string_view::npos) return std::nullopt;
  int number = 0;
  for (const char c : status.substr(at + text.size())) {
    if (c < '0' || c > '9') return number;
    number = number * 10 + (c - '0');
  }
  return std::nullopt;  // the number is not complete
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

std::string RootOf(pid_t first) { return "/proc/" + std::to_string(first) + "/root"; }

// While bubblewrap makes the sandbox, its first process still has the root of this process.
bool IsSetUp(const std::string& root) {
  struct stat own {};

  struct stat theirs {};

  return ::stat("/", &own) == 0 && ::stat(root.c_str(), &theirs) == 0 &&
         own.st_dev != theirs.st_dev;
}

// The folders of the processes in the sandbox's own /proc.
std::vector<std::filesystem::path> Processes(const std::string& root) {
  std::vector<std::filesystem::path> processes;
  std::error_code error;
  std::filesystem::directory_iterator entry(root + "/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      processes.push_back(entry->path());
  }
  return processes;
}

// Returns the sum of the lines `names` of a file of /proc, which are in kB; nullopt if it has no
// such lines.
std::optional<std::int64_t> BytesIn(const std::filesystem::path& path,
                                    std::initializer_list<std::string_view> names) {
  std::ifstream file(path);
  std::optional<std::int64_t> sum;
  std::string word;
  while (file >> word) {
    std::int64_t kilobytes = 0;
    if (std::ranges::find(names, word) != names.end() && file >> kilobytes)
      sum = sum.value_or(0) + (kilobytes << 10);
  }
  return sum;
}

// Returns the pages that belong to no file of a disk, in memory or swapped out: private ones, and
// shared memory. Pages that are shared with another process count as this process's own.
std::int64_t OwnBytes(const std::filesystem::path& process) {
  return BytesIn(process / "status", {"RssAnon:", "RssShmem:", "VmSwap:"}).value_or(0);
}

// Returns the same with each shared page divided among its owners; OwnBytes if the kernel does not
// say.
std::int64_t ProportionalBytes(const std::filesystem::path& process) {
  const auto bytes = BytesIn(process / "smaps_rollup", {"Pss_Anon:", "Pss_Shmem:", "SwapPss:"});
  return bytes ? *bytes : OwnBytes(process);
}

// Returns the bytes of memory that belong to the processes of the pid namespace whose first process
// is `first`, pages that they share counted once. Sums that stay within `limit` may count shared
// pages several times, which is faster. 0 while the sandbox is being set up.
std::int64_t MemoryOf(pid_t first, std::int64_t limit) {
  const std::string root = RootOf(first);
  if (!IsSetUp(root)) return 0;
  const std::vector<std::filesystem::path> processes = Processes(root);
  std::int64_t sum = 0;
  for (const auto& process : processes) sum += OwnBytes(process);
  if (sum <= limit) return sum;
  sum = 0;
  for (const auto& process : processes) sum += ProportionalBytes(process);
  return sum;
}

// `group` is null where the memory is measured.
bool ExceedsMemory(pid_t first, const SandboxLimits& limits, const MemoryGroup* group) {
  return group != nullptr ? group->OutOfMemory()
                          : MemoryOf(first, limits.memory_bytes) > limits.memory_bytes;
}

// Returns the files and folders in the sandbox's file system at /`folder`. 0 while the sandbox is
// being set up.
std::int64_t FilesIn(pid_t first, const char* folder) {
  const std::string root = RootOf(first);

  struct statvfs system {};

  if (!IsSetUp(root) || ::statvfs((root + "/" + folder).c_str(), &system) != 0) return 0;
  return static_cast<std::int64_t>(system.f_files - system.f_ffree);
}

struct Activity {
  bool asleep = false;      // whether there are processes, and none wants a CPU or waits for a disk
  std::int64_t cpu_ms = 0;  // CPU time of the processes, and of their children that have ended
};

// Returns what the processes of the sandbox do (proc(5): /proc/PID/stat).
Activity ActivityOf(const std::string& root) {
  constexpr int kBeforeTimes = 10;  // fields between the state and the times
  constexpr int kTimes = 4;         // of the process and of its children, in user and kernel mode
  static const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
  Activity activity;
  bool any = false;
  bool awake = false;
  for (const std::filesystem::path& process : Processes(root)) {
    std::ifstream file(process / "stat");
    std::string text;
    std::getline(file, text, '\0');  // does not throw where the process ends meanwhile
    std::istringstream fields(text.substr(text.rfind(')') + 1));  // behind the name
    char state = 0;
    if (!(fields >> state)) continue;  // the first process, which is hidden, or one that has ended
    any = true;
    awake = awake || state == 'R' || state == 'D';
    std::int64_t value = 0;
    for (int i = 0; i < kBeforeTimes; ++i) fields >> value;
    for (int i = 0; i < kTimes && fields >> value; ++i)
      activity.cpu_ms += value * 1000 / ticks_per_second;
  }
  activity.asleep = any && !awake;
  return activity;
}

OwnedFd HandleOf(pid_t process) {
  return OwnedFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

// Kills the first process of a sandbox, with which the kernel ends the whole pid namespace, and
// bubblewrap, which waits for it. The first process is named by a handle, because its number may be
// another process's by now.
void KillSandbox(pid_t bubblewrap, const OwnedFd& first) {
  if (first.get() >= 0) ::syscall(SYS_pidfd_send_signal, first.get(), SIGKILL, nullptr, 0);
  ::kill(-bubblewrap, SIGKILL);
}

// Reads the pipes of a running program until all have closed. Kills the program when it exceeds a
// limit.
class Watch {
 public:
  Watch(pid_t pid, const Streams& streams, const SandboxRun& run, const MemoryGroup* group)
      : pid_(pid),
        group_(group),
        limits_(run.limits),
        take_(run.take),
        total_ms_((run.take ? run.limits.total : run.limits.wall).count()),
        deadline_ms_(RealClock().MonotonicMs() + kStartingMs) {
    ends_[0] = {streams.output.read.get(), POLLIN, 0};
    ends_[1] = {streams.errors.read.get(), POLLIN, 0};
    ends_[2] = {streams.status.read.get(), POLLIN, 0};
  }

  // Returns false if a killed process still holds a pipe after kDyingMs, or bubblewrap starts
  // nothing within kStartingMs.
  bool UntilClosed() {
    while (Open()) {
      const std::int64_t left_ms = deadline_ms_ - RealClock().MonotonicMs();
      if (left_ms <= 0 && (killed_ || !first_)) return false;
      if (left_ms <= 0) Kill(SandboxEnd::kStarved);
      if (::poll(ends_.data(), ends_.size(),
                 static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, kWeighMs))) < 0 &&
          errno != EINTR)
        return false;
      Read();
      FindFirstProcess();
      CheckTotals();
    }
    return true;
  }

  bool killed() const { return killed_; }

  SandboxEnd end() const { return end_; }

  milliseconds used() const { return milliseconds(used_ms_); }

  std::string& output() { return texts_[0]; }

  std::string& errors() { return texts_[1]; }

  const std::string& status() const { return texts_[2]; }

 private:
  // The status pipe counts as well: bubblewrap holds it until every process in the sandbox is gone.
  bool Open() const { return ends_[0].fd >= 0 || ends_[1].fd >= 0 || ends_[2].fd >= 0; }

  void Read() {
    const std::size_t bounds[] = {limits_.output_bytes, limits_.output_bytes, kStatusBytes};
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i].fd < 0) continue;
      const bool open = ReadSome(ends_[i].fd, bounds[i], texts_[i]);
      const bool full = texts_[i].size() > bounds[i];
      if (i == 0) Take();
      if (open || (full && texts_[i].size() <= bounds[i])) continue;
      if (full) {
        texts_[i].resize(bounds[i]);
        if (!killed_) Kill(SandboxEnd::kOutput);
      }
      ends_[i].fd = -1;
    }
  }

  void Take() {
    if (!take_ || killed_ || texts_[0].empty()) return;
    const std::size_t before = texts_[0].size();
    const bool goes_on = take_(texts_[0]);
    if (texts_[0].size() < before) piece_ms_ = used_ms_;
    if (!goes_on) Kill(SandboxEnd::kStopped);
  }

  // The time of the program begins with the first process of its namespace.
  void FindFirstProcess() {
    if (first_) return;
    first_ = NumberIn(status(), "child-pid");
    if (!first_) return;
    looked_ms_ = RealClock().MonotonicMs();
    handle_ = HandleOf(*first_);
    if (!killed_) deadline_ms_ = looked_ms_ + kPatience * total_ms_;
  }

  void CheckTotals() {
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (!first_ || killed_ || now_ms < weigh_at_ms_) return;
    if (ExceedsMemory(*first_, limits_, group_)) return Kill(SandboxEnd::kMemory);
    const std::int64_t took_ms = RealClock().MonotonicMs() - now_ms;
    weigh_at_ms_ = now_ms + std::clamp(10 * took_ms, kWeighMs, kLookMs);
    if (now_ms < looked_ms_ + kLookMs) return;
    CountTime(now_ms);
    looked_ms_ = now_ms;
    if (used_ms_ >= total_ms_ || used_ms_ - piece_ms_ >= limits_.wall.count())
      return Kill(SandboxEnd::kWallTime);
    for (const char* folder : {"tmp", "work"}) {
      if (FilesIn(*first_, folder) > limits_.files) return Kill(SandboxEnd::kFiles);
    }
  }

  // Counts the time since the last look: all of it where the program sleeps, which a busy machine
  // does not make it do, and else its CPU time.
  void CountTime(std::int64_t now_ms) {
    const std::string root = RootOf(*first_);
    if (!IsSetUp(root)) return;
    const Activity activity = ActivityOf(root);
    const std::int64_t cpu_ms = std::max<std::int64_t>(0, activity.cpu_ms - cpu_ms_);
    cpu_ms_ = activity.cpu_ms;
    // A look that comes late says that this process too waited for a CPU.
    const std::int64_t most_ms = activity.asleep ? std::max(cpu_ms, kLookMs) : cpu_ms;
    used_ms_ += std::min(most_ms, now_ms - looked_ms_);
  }

  void Kill(SandboxEnd end) {
    end_ = end;
    killed_ = true;
    deadline_ms_ = RealClock().MonotonicMs() + kDyingMs;
    KillSandbox(pid_, handle_);
  }

  const pid_t pid_;
  const MemoryGroup* const group_;
  const SandboxLimits& limits_;
  const std::function<bool(std::string&)>& take_;
  const std::int64_t total_ms_;
  std::int64_t deadline_ms_;
  std::optional<pid_t> first_;
  OwnedFd handle_;  // of the first process
  std::int64_t weigh_at_ms_ = 0;
  std::int64_t looked_ms_ = 0;
  std::int64_t cpu_ms_ = 0;  // at the last look
  std::int64_t used_ms_ = 0;
  std::int64_t piece_ms_ = 0;  // what was used before the piece began
  bool killed_ = false;
  SandboxEnd end_ = SandboxEnd::kExited;
  std::array<pollfd, 3> ends_;
  std::string texts_[3];
};

// Starts bubblewrap with the run's program and closes this process's copies of the write ends.
Result<pid_t> StartRun(const SandboxOptions& options, const SandboxRun& run,
                       const MemoryGroup* group, Streams& streams) {
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd input, MakeSealedFile(run.input));
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd filter, MakeSeccompFilter());
  std::vector<OwnedFd> files;
  SpawnRequest request{CommandLine(options, run, group), {}, {}};
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

std::atomic<bool> opened = false;

}  // namespace

SandboxedProgram::SandboxedProgram(pid_t pid, OwnedFd status, const SandboxLimits& limits,
                                   std::unique_ptr<MemoryGroup> group)
    : pid_(pid), status_(std::move(status)), limits_(limits), group_(std::move(group)) {}

SandboxedProgram::~SandboxedProgram() {
  First();
  KillSandbox(pid_, handle_);
  KillAndReap(pid_);
}

std::optional<pid_t> SandboxedProgram::First() {
  if (first_) return first_;
  ReadSome(status_.get(), kStatusBytes, report_);
  first_ = NumberIn(report_, "child-pid");
  if (first_) handle_ = HandleOf(*first_);
  return first_;
}

std::int64_t SandboxedProgram::memory_bytes() {
  return First() ? MemoryOf(*first_, limits_.memory_bytes) : 0;
}

std::int64_t SandboxedProgram::cpu_ms() {
  return First() && IsSetUp(RootOf(*first_)) ? ActivityOf(RootOf(*first_)).cpu_ms : 0;
}

Status SandboxedProgram::CheckTotals() {
  if (First() && ExceedsMemory(*first_, limits_, group_.get())) {
    return ResourceExhausted(
        fmt::format("its processes hold more than {} MiB of memory", limits_.memory_bytes >> 20));
  }
  for (const char* folder : {"tmp", "work"}) {
    if (first_ && FilesIn(*first_, folder) > limits_.files)
      return ResourceExhausted(fmt::format("more than {} files in /{}", limits_.files, folder));
  }
  return OkStatus();
}

Result<std::unique_ptr<SandboxedProgram>> Sandbox::Start(const SandboxRun& run, int stream,
                                                         int errors) const {
  BUTTRESS_ASSIGN_OR_RETURN(Pipe status, MakePipe());
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd filter, MakeSeccompFilter());
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<MemoryGroup> group, GroupFor(run.limits));
  const SpawnRequest request{CommandLine(options_, run, group.get()),
                             {},
                             {stream, stream, errors, status.write.get(), filter.get()}};
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request));
  return std::unique_ptr<SandboxedProgram>(
      new SandboxedProgram(pid, std::move(status.read), run.limits, std::move(group)));
}

Result<SandboxResult> Sandbox::Run(const SandboxRun& run) const {
  if (run.files.size() > kMaxFiles)
    return InvalidArgument(fmt::format("more than {} files in a sandbox", kMaxFiles));
  BUTTRESS_ASSIGN_OR_RETURN(Streams streams, MakeStreams());
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<MemoryGroup> group, GroupFor(run.limits));
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid, StartRun(options_, run, group.get(), streams));
  Watch watch(pid, streams, run, group.get());
  const bool closed = watch.UntilClosed();
  KillAndReap(pid);
  if (!closed)
    return Unavailable("the sandbox did not start, or a program in it could not be killed");
  SandboxResult result{watch.end(), 0, std::move(watch.output()), std::move(watch.errors()),
                       watch.used()};
  if (watch.killed()) return result;
  if (group && group->OutOfMemory()) {
    result.end = SandboxEnd::kMemory;
    return result;
  }
  const std::optional<int> code = NumberIn(watch.status(), "exit-code");
  if (!code)
    return Unavailable(
        fmt::format("the sandbox did not start: {}", FirstBytes(Trim(result.errors), kShownBytes)));
  result.exit_code = *code;
  if (*code == kCpuSignalExit) result.end = SandboxEnd::kCpuTime;
  return result;
}

std::string OpenedSandboxText() { return opened ? MemoryBoundText() : ""; }

Result<Sandbox> Sandbox::Open(const SandboxOptions& options) {
  for (const char* program : {kBubblewrap, kPrlimit, kSetpriv}) {
    if (::access(program, X_OK) != 0)
      return FailedPrecondition(fmt::format(
          "no {}: code is scored in a sandbox only; install bubblewrap and util-linux", program));
  }
  opened = true;
  Sandbox sandbox(options);
  BUTTRESS_RETURN_IF_ERROR(TestSandbox(sandbox, options.python));
  return sandbox;
}

}  // namespace buttress
