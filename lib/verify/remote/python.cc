// Verifier python:FILE:FUNCTION: unchanged reward functions of verl or TRL (python_worker.py has
// the adapters).
//
// Each of `workers` processes scores one group at a time, all completions of a prompt. A group
// waits for an idle process, for as long as the groups of all threads may take, which slows the
// queue behind it; the function then has timeout_ms for the group. A process that is too slow is
// killed. A process that has ended is started again, after a pause that grows while starting fails.
// If the function gets completions one by one, those of a group whose process was too slow or has
// ended are then scored in calls of their own, so that only those that it fails on are unscorable.
// A process that has scored `restart_after` groups, or holds more than `memory_mb`, is ended after
// its answer, and the next group starts another. Exceptions, None and NaN are unscorable with the
// reason.
//
// With run.reward.python.sandbox each process, with all that it starts, is in a sandbox with the
// limits of run.reward.code: a group has timeout_ms in place of the limits on time, and a process
// that goes on working after its answer is replaced.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/program_path.h"
#include "lib/base/report/log.h"
#include "lib/base/text/bounded_json.h"
#include "lib/base/thread/sync.h"
#include "lib/verify/process/spawn.h"
#include "lib/verify/python_programs.h"
#include "lib/verify/remote/batch.h"
#include "lib/verify/sandbox/sandbox.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

struct PythonFunction {
  std::string interpreter;
  std::string file;
  std::string name;
  ChatForm chat = ChatForm::kAuto;
  std::map<std::string, std::string> arguments = {};  // each value JSON or else text
  std::string output = {};  // the file for what it prints; empty: the standard error stream
  std::optional<Sandbox> sandbox = {};
  SandboxLimits limits = {};  // there
};

// Calls of a group with one completion that may fail before the rest of it is unscorable.
constexpr int kMaxFailures = 4;
constexpr std::size_t kMaxReplyBytes = kMaxReferenceBytes;
// How long the kernel may take to end killed processes.
constexpr std::chrono::milliseconds kEndingTime(5000);
// How long a sandbox may exceed its totals unseen, while it scores.
constexpr std::int64_t kTotalsMs = 50;
// CPU time that a sandboxed process may use between two groups, as its interpreter does.
constexpr std::int64_t kIdleCpuMs = 500;
// What a sandboxed process may print.
constexpr std::size_t kMaxPrintedBytes = 1 << 20;

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  return environment;
}

Status NoGreeting(const std::string& line) {
  return Internal("the Python process does not greet: " + line.substr(0, 200));
}

// The third argument of the program (python_worker.py).
std::string Options(const PythonFunction& function) {
  nlohmann::json arguments = nlohmann::json::object();
  for (const auto& [name, text] : function.arguments) {
    const Result<nlohmann::json> value = ParseBoundedJson(text);
    arguments[name] = value.ok() ? *value : nlohmann::json(text);
  }
  return nlohmann::json{{"chat", ChoiceName(function.chat)},
                        {"arguments", std::move(arguments)},
                        {"output", function.sandbox ? "" : function.output}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Where the function's processes write what it prints: all to the same file of the run.
std::string OutputPath(const std::string& folder, const PythonFunction& function) {
  if (folder.empty()) return "";
  const std::string stem = std::filesystem::path(function.file).stem().string();
  return JoinPath(folder, stem + "." + function.name + ".log");
}

// A process that scores one group at a time. Thread safety: none.
class PythonProcess {
 public:
  // Starts Python and imports the function. Returns
  //   kInvalidArgument   the interpreter, the file or the function cannot be used; the message says
  //                      why;
  //   kDeadlineExceeded  the import takes longer than `timeout_ms`;
  //   kUnavailable       Python does not start.
  static Result<std::unique_ptr<PythonProcess>> Start(const PythonFunction& function,
                                                      std::int64_t timeout_ms);

  // Kills the process and every process that it started, whatever their groups and sessions are.
  ~PythonProcess();

  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // Sends `line` and returns the line that answers it. After an error the process cannot be used
  // again: kDeadlineExceeded, kUnavailable if the process has ended, kResourceExhausted if the
  // answer is too long.
  Result<std::string> Call(std::string_view line, std::int64_t timeout_ms);

  // Whether the function takes the token ids of the completions.
  bool wants_token_ids() const { return wants_token_ids_; }

  // Whether the function gets one completion at a time, and compares none.
  bool one_by_one() const { return one_by_one_; }

  // Returns the resident memory of the process, without that of its children; 0 if it has ended. In
  // a sandbox, that of all processes there.
  std::int64_t ResidentBytes() const;

  // Whether the process has ended since its last answer. A sandboxed one ends with the thread that
  // has started it.
  bool ended() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  // Whether a sandboxed process has gone on working since its last answer.
  bool works() const { return sandboxed_ && sandboxed_->cpu_ms() > answered_cpu_ms_ + kIdleCpuMs; }

 private:
  PythonProcess(OwnedFd socket, std::string output)
      : output_(std::move(output)), socket_(std::move(socket)) {}

  Status Spawn(const PythonFunction& function, int theirs);
  Status SpawnSandboxed(const PythonFunction& function, int theirs);
  Status ReadGreeting(const std::string& line);
  Status Send(std::string_view bytes, std::int64_t deadline_ms);
  Result<std::string> Receive(std::int64_t deadline_ms);
  Status Wait(short events, std::int64_t deadline_ms);
  void KeepPrinted();

  pid_t pid_ = 0;      // of the keeper (python_worker.py), without a sandbox
  pid_t scoring_ = 0;  // of the process that calls the function
  std::unique_ptr<SandboxedProgram> sandboxed_;
  std::int64_t answered_cpu_ms_ = 0;
  const std::string output_;  // PythonFunction::output
  OwnedFd prints_;            // of a sandboxed process
  std::size_t printed_ = 0;   // bytes of it
  // A stream socket instead of pipes: MSG_NOSIGNAL suppresses the signal for writing to a process
  // that has ended.
  const OwnedFd socket_;
  std::string received_;
  bool wants_token_ids_ = false;
  bool one_by_one_ = false;
};

Result<std::unique_ptr<PythonProcess>> PythonProcess::Start(const PythonFunction& function,
                                                            std::int64_t timeout_ms) {
  if (!OnPath(function.interpreter))
    return InvalidArgument("no program '" + function.interpreter +
                           "'; install it, or set run.reward.python.interpreter to another one");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Unavailable(std::string("socketpair: ") + std::strerror(errno));
  OwnedFd ours(ends[0]);
  OwnedFd theirs(ends[1]);
  std::unique_ptr<PythonProcess> process(new PythonProcess(std::move(ours), function.output));
  BUTTRESS_RETURN_IF_ERROR(function.sandbox ? process->SpawnSandboxed(function, theirs.get())
                                            : process->Spawn(function, theirs.get()));
  theirs.Close();  // Receive sees the end of the process only if no other copy stays open.
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const std::string what = function.file + ":" + function.name;
  const Result<std::string> greeting = process->Receive(RealClock().MonotonicMs() + timeout_ms);
  if (greeting.status().code() == StatusCode::kDeadlineExceeded)
    return DeadlineExceeded(
        fmt::format("{}: the import takes longer than "
                    "run.reward.python.start_ms = {}; raise it",
                    what, timeout_ms));
  if (!greeting.ok()) return greeting.status().Annotate(what + " with " + function.interpreter);
  BUTTRESS_RETURN_IF_ERROR(process->ReadGreeting(*greeting).Annotate(what));
  if (process->sandboxed_) process->answered_cpu_ms_ = process->sandboxed_->cpu_ms();
  return process;
}

PythonProcess::~PythonProcess() {
  if (pid_ != 0) EndAndReap(pid_, kEndingTime);
}

Status PythonProcess::Spawn(const PythonFunction& function, int theirs) {
  SpawnRequest request;
  request.argv = {
      "/usr/bin/env", function.interpreter, "-c", std::string(kPythonWorker), function.file,
      function.name,  Options(function)};
  request.environment = OwnEnvironment();
  request.fds = {theirs, theirs, STDERR_FILENO};
  BUTTRESS_ASSIGN_OR_RETURN(pid_, ::buttress::Spawn(request));
  return OkStatus();
}

Status PythonProcess::SpawnSandboxed(const PythonFunction& function, int theirs) {
  BUTTRESS_ASSIGN_OR_RETURN(Pipe prints, MakePipe());
  const SandboxRun run{{function.interpreter, "-c", std::string(kPythonWorker), function.file,
                        function.name, Options(function)},
                       {},
                       {},
                       function.limits};
  BUTTRESS_ASSIGN_OR_RETURN(sandboxed_, function.sandbox->Start(run, theirs, prints.write.get()));
  prints_ = std::move(prints.read);
  return OkStatus();
}

Result<std::string> PythonProcess::Call(std::string_view line, std::int64_t timeout_ms) {
  const std::int64_t deadline_ms = RealClock().MonotonicMs() + timeout_ms;
  BUTTRESS_RETURN_IF_ERROR(Send(std::string(line) + "\n", deadline_ms));
  Result<std::string> answer = Receive(deadline_ms);
  if (sandboxed_) answered_cpu_ms_ = sandboxed_->cpu_ms();
  return answer;
}

std::int64_t PythonProcess::ResidentBytes() const {
  if (sandboxed_) return sandboxed_->memory_bytes();
  std::ifstream file("/proc/" + std::to_string(scoring_) + "/statm");
  std::int64_t pages = 0;
  std::int64_t resident_pages = 0;
  if (!(file >> pages >> resident_pages)) return 0;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

Status PythonProcess::ReadGreeting(const std::string& line) {
  const Result<nlohmann::json> greeting = ParseBoundedJson(line);
  if (!greeting.ok() || !greeting->is_object()) return NoGreeting(line);
  if (greeting->contains("error") && (*greeting)["error"].is_string())
    return InvalidArgument((*greeting)["error"].get<std::string>());
  if (!greeting->contains("ready") || !(*greeting)["pid"].is_number_integer())
    return NoGreeting(line);
  scoring_ = (*greeting)["pid"].get<pid_t>();
  one_by_one_ = (*greeting)["ready"] == "verl";
  wants_token_ids_ = greeting->contains("token_ids") && (*greeting)["token_ids"] == true;
  return OkStatus();
}

Status PythonProcess::Send(std::string_view bytes, std::int64_t deadline_ms) {
  while (!bytes.empty()) {
    BUTTRESS_RETURN_IF_ERROR(Wait(POLLOUT, deadline_ms));
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0)
      return Unavailable(std::string("the Python process has ended: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return OkStatus();
}

Result<std::string> PythonProcess::Receive(std::int64_t deadline_ms) {
  while (true) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    BUTTRESS_RETURN_IF_ERROR(Wait(POLLIN, deadline_ms));
    if (ReadSome(socket_.get(), kMaxReplyBytes, received_)) continue;
    if (received_.size() > kMaxReplyBytes)
      return ResourceExhausted(
          fmt::format("the Python function answers with more than {} bytes", kMaxReplyBytes));
    if (received_.find('\n') == std::string::npos)
      return Unavailable("the Python process has ended");
  }
}

Status PythonProcess::Wait(short events, std::int64_t deadline_ms) {
  while (true) {
    const std::int64_t left_ms = deadline_ms - RealClock().MonotonicMs();
    if (left_ms <= 0) return DeadlineExceeded("timeout");
    pollfd entry{socket_.get(), events, 0};
    const std::int64_t longest_ms = sandboxed_ ? kTotalsMs : 1000;
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left_ms, longest_ms)));
    if (ready < 0 && errno != EINTR)
      return Unavailable(std::string("poll: ") + std::strerror(errno));
    if (sandboxed_) {
      KeepPrinted();
      BUTTRESS_RETURN_IF_ERROR(sandboxed_->CheckTotals());
    }
    if (ready > 0) return OkStatus();
  }
}

// Takes what the sandboxed process has printed, so that it need not wait, and keeps the first part.
void PythonProcess::KeepPrinted() {
  std::string text;
  if (prints_.get() < 0) return;
  if (!ReadSome(prints_.get(), kMaxPrintedBytes, text) && text.empty()) prints_.Close();
  text.resize(std::min(text.size(), kMaxPrintedBytes - printed_));
  printed_ += text.size();
  if (text.empty()) return;
  if (output_.empty()) {
    std::fputs(text.c_str(), stderr);
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(output_).parent_path(), error);
  const auto size = std::filesystem::file_size(output_, error);
  if (error || size < kMaxPrintedBytes) std::ofstream(output_, std::ios::app) << text;
}

// A slot for a process, which may be empty.
struct Slot {
  explicit Slot(std::uint64_t seed) : backoff({.initial_ms = 500, .max_ms = 30000}, seed) {}

  std::unique_ptr<PythonProcess> process;
  std::int64_t groups = 0;  // that the process has scored
  Backoff backoff;
  std::int64_t next_start_ms = 0;
  std::string why_empty;
};

class Python : public Verifier {
 public:
  Python(PythonFunction function, const RewardConfig& config)
      : function_(std::move(function)), config_(config) {}

  // Starts every process once, so that an unusable file is an error before the run.
  Status Start() {
    MutexLock lock(mutex_);
    for (std::int64_t i = 0; i < config_.python.workers; ++i) {
      auto slot = std::make_unique<Slot>(static_cast<std::uint64_t>(i));
      BUTTRESS_ASSIGN_OR_RETURN(slot->process,
                                PythonProcess::Start(function_, config_.python.start_ms));
      one_by_one_ = slot->process->one_by_one();
      idle_.push_back(std::move(slot));
    }
    return OkStatus();
  }

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyGroup({&request, 1}).front());
  }

  bool whole_groups() const override { return true; }

  // The function has timeout_ms; waiting for a process and starting one is not its time.
  bool bounds_time() const override { return true; }

  std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const override {
    std::unique_ptr<Slot> slot = WaitForIdle();
    if (slot == nullptr) {
      return AllUnscorable(requests.size(), std::string(kTimeoutReason) +
                                                ": no process of the function was idle; raise "
                                                "run.reward.python.workers");
    }
    std::vector<Verdict> verdicts = Call(*slot, requests);
    EndIfUsedUp(*slot);
    MutexLock lock(mutex_);
    idle_.push_back(std::move(slot));
    returned_.NotifyOne();
    return verdicts;
  }

 private:
  // Returns an idle slot, or null if none becomes idle in the time that the groups of all threads
  // have one after the other, if each is scored twice.
  std::unique_ptr<Slot> WaitForIdle() const {
    MutexLock lock(mutex_);
    const std::chrono::milliseconds left(2 * (config_.python.start_ms + config_.timeout_ms) *
                                         config_.threads);
    if (!returned_.WaitFor(mutex_, left, [this]() REQUIRES(mutex_) { return !idle_.empty(); }))
      return nullptr;
    std::unique_ptr<Slot> slot = std::move(idle_.back());
    idle_.pop_back();
    return slot;
  }

  std::vector<Verdict> Call(Slot& slot, std::span<const VerifyRequest> requests) const {
    Result<std::vector<Verdict>> verdicts = Try(slot, requests, config_.timeout_ms);
    if (verdicts.ok()) return *std::move(verdicts);
    const bool singly = one_by_one_ && requests.size() > 1;
    return singly ? CallSingly(slot, requests)
                  : AllUnscorable(requests.size(), verdicts.status().message());
  }

  // Scores each completion in a call of its own. They have timeout_ms together, each half of what
  // is left of it.
  std::vector<Verdict> CallSingly(Slot& slot, std::span<const VerifyRequest> requests) const {
    std::vector<Verdict> verdicts;
    std::int64_t left_ms = config_.timeout_ms;
    int failures = 0;
    std::string reason;
    for (const VerifyRequest& request : requests) {
      if (failures == kMaxFailures) {
        verdicts.push_back(Unscorable(reason));
        continue;
      }
      if (slot.process == nullptr) StartProcess(slot);
      const std::int64_t begun_ms = RealClock().MonotonicMs();
      const Result<std::vector<Verdict>> own = Try(slot, {&request, 1}, left_ms / 2);
      left_ms -= RealClock().MonotonicMs() - begun_ms;
      if (!own.ok()) {
        ++failures;
        reason = own.status().message();
      }
      verdicts.push_back(own.ok() ? own->front() : Unscorable(reason));
    }
    return verdicts;
  }

  // Scores the requests in one call, in which the function has `timeout_ms`. An error, after which
  // the process is gone, is the reason why they are unscorable.
  Result<std::vector<Verdict>> Try(Slot& slot, std::span<const VerifyRequest> requests,
                                   std::int64_t timeout_ms) const {
    if (slot.process != nullptr && slot.process->ended()) slot.process.reset();
    if (slot.process != nullptr && slot.process->works()) {
      Log(kWarn, "Python reward process went on working after its answer and is replaced",
          {{"function", function_.file + ":" + function_.name}});
      slot.process.reset();
    }
    if (slot.process == nullptr) StartProcess(slot);
    if (slot.process == nullptr) return Unavailable(slot.why_empty);
    const std::string group =
        EncodeBatch(requests, {.token_ids = slot.process->wants_token_ids(), .state = true});
    const Result<std::string> reply = slot.process->Call(group, timeout_ms);
    ++slot.groups;
    if (reply.ok()) return DecodeResults(*reply, requests.size(), config_.correct_from);
    const Status failed = reply.status().code() == StatusCode::kDeadlineExceeded
                              ? DeadlineExceeded(TimeoutReason(config_.timeout_ms))
                              : reply.status();
    Log(kWarn, "Python reward process stopped after an error",
        {{"function", function_.file + ":" + function_.name}, {"error", failed.message()}});
    slot.process.reset();
    return failed;
  }

  // Ends a process that has served its time, once its verdicts have arrived.
  void EndIfUsedUp(Slot& slot) const {
    if (slot.process == nullptr) return;
    const PythonConfig& bounds = config_.python;
    const bool old = bounds.restart_after > 0 && slot.groups >= bounds.restart_after;
    const std::int64_t resident_mb = bounds.memory_mb > 0 ? slot.process->ResidentBytes() >> 20 : 0;
    if (!old && resident_mb <= bounds.memory_mb) return;
    Log(kInfo, "Python reward process is replaced",
        {{"function", function_.file + ":" + function_.name},
         {"groups", slot.groups},
         {"resident_mb", slot.process->ResidentBytes() >> 20}});
    slot.process.reset();
  }

  // Starts the process of an empty slot, unless the last start failed a moment ago.
  void StartProcess(Slot& slot) const {
    if (RealClock().MonotonicMs() < slot.next_start_ms) return;
    Result<std::unique_ptr<PythonProcess>> started =
        PythonProcess::Start(function_, config_.python.start_ms);
    if (started.ok()) {
      slot.process = *std::move(started);
      slot.groups = 0;
      slot.backoff.Reset();
      return;
    }
    slot.why_empty = started.status().message();
    slot.next_start_ms = RealClock().MonotonicMs() + slot.backoff.NextMs();
    Log(kWarn, "Python reward process does not start", {{"error", slot.why_empty}});
  }

  const PythonFunction function_;
  const RewardConfig config_;
  bool one_by_one_ = false;  // set by Start
  mutable Mutex mutex_;
  mutable CondVar returned_;
  mutable std::vector<std::unique_ptr<Slot>> idle_ GUARDED_BY(mutex_);
};

// Lets the function's processes run in a sandbox that shows the folder of its file.
Status OpenSandbox(const CodeConfig& code, PythonFunction& function) {
  namespace fs = std::filesystem;
  const std::string interpreter = FindProgram(function.interpreter);
  if (interpreter.empty()) return OkStatus();  // PythonProcess::Start says so
  function.interpreter = fs::absolute(interpreter).lexically_normal().string();
  function.file = fs::absolute(function.file).lexically_normal().string();
  SandboxOptions options{function.interpreter, code.read_only};
  const bool shown = function.interpreter.starts_with("/usr/") ||
                     std::ranges::any_of(code.read_only, [&](const std::string& folder) {
                       return function.interpreter.starts_with(JoinPath(folder, ""));
                     });
  if (!shown) {
    return InvalidArgument(fmt::format(
        "run.reward.python.sandbox: {} is not below /usr, which the sandbox shows; set "
        "run.reward.python.interpreter: /usr/bin/python3, or name the folder of its environment in "
        "run.reward.code.read_only",
        function.interpreter));
  }
  options.read_only.push_back(fs::path(function.file).parent_path().string());
  Result<Sandbox> sandbox = Sandbox::Open(options);
  if (!sandbox.ok()) return sandbox.status().Annotate("run.reward.python.sandbox");
  function.sandbox = *std::move(sandbox);
  function.limits.cpu_seconds = 0;
  function.limits.memory_bytes = code.memory_mb << 20;
  function.limits.disk_bytes = code.disk_mb << 20;
  function.limits.processes = code.processes;
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Verifier>> MakePython(const RewardConfig& config,
                                             std::string_view argument) {
  const std::size_t colon = argument.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == argument.size())
    return InvalidArgument("'" + std::string(argument) +
                           "' names no function; expected python:FILE:FUNCTION");
  PythonFunction function{config.python.interpreter, std::string(argument.substr(0, colon)),
                          std::string(argument.substr(colon + 1)), config.python.chat,
                          config.python.arguments};
  function.output = OutputPath(config.python.output, function);
  if (config.python.sandbox) BUTTRESS_RETURN_IF_ERROR(OpenSandbox(config.code, function));
  auto python = std::make_unique<Python>(std::move(function), config);
  BUTTRESS_RETURN_IF_ERROR(python->Start());
  return std::unique_ptr<Verifier>(std::move(python));
}

}  // namespace buttress
