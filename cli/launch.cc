#include "cli/launch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/process.h"
#include "cli/steps_file.h"
#include "cli/summary.h"
#include "cli/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/shutdown.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kTick(100);
constexpr std::int64_t kEvalTimeoutMs = 3600 * 1000;

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// One launch at a time in a run's folder; the lock goes with the process.
Status LockRun(const std::string& out) {
  const std::string path = JoinPath(out, "launch.lock");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Unavailable("cannot write " + path);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition("another `buttress launch` works in " + out +
                              "; stop it, or set local.out to another folder");
  }
  return OkStatus();
}

// Moves runs/x to runs/x.1 (.2, ...).
Status MoveAside(const std::string& out) {
  namespace fs = std::filesystem;
  if (!fs::exists(out)) return OkStatus();
  int n = 1;
  while (fs::exists(out + "." + std::to_string(n))) ++n;
  const std::string target = out + "." + std::to_string(n);
  std::error_code error;
  fs::rename(out, target, error);
  if (error) return Unavailable("cannot move " + out + " to " + target + ": " + error.message());
  Say("launch: an earlier run was moved to " + target);
  return OkStatus();
}

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const RunConfig& config)
      : options_(options),
        config_(config),
        out_(config.local.out),
        supervisor_(JoinPath(out_, "logs"), static_cast<int>(config.local.launch.max_restarts)) {}

  Status Run() {
    BUTTRESS_RETURN_IF_ERROR(Prepare());
    const Status status = RunInside();
    supervisor_.ExpectExits();
    // Whatever happened above, nothing of ours outlives this process.
    if (const int killed = KillDescendants(); killed > 0)
      Say("launch: killed " + std::to_string(killed) + " processes that did not stop");
    return status;
  }

 private:
  Status Prepare() {
    if (options_.fresh) BUTTRESS_RETURN_IF_ERROR(MoveAside(out_));
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(JoinPath(out_, "logs")));
    BUTTRESS_RETURN_IF_ERROR(LockRun(out_));
    if (std::filesystem::exists(JoinPath(out_, "summary.json"))) {
      return FailedPrecondition(
          "the run in " + out_ +
          " is finished; start it again with --fresh, or set local.out to another folder");
    }
    BecomeSubreaper();
    return OkStatus();
  }

  Status RunInside() {
    BUTTRESS_RETURN_IF_ERROR(Evaluate("before", config_.run.model.path, accuracy_before_));
    started_ = MonotonicSeconds();
    BUTTRESS_RETURN_IF_ERROR(StartAll());
    const Status status = Watch();
    wall_seconds_ = MonotonicSeconds() - started_;
    if (!status.ok()) {
      StopAll();
      return status;
    }
    Finish();
    BUTTRESS_RETURN_IF_ERROR(Evaluate("after", JoinPath(out_, "model"), accuracy_after_));
    return Conclude();
  }

  Status StartAll() {
    Say("launch: " + config_.run.name + ": 1 coordinator, " +
        std::to_string(config_.local.launch.workers) + " rollout workers, " +
        std::to_string(config_.local.launch.learner_ranks) + " learner ranks; folder " + out_);
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("coordinator", Command({SiblingProgram("coordinator")}, {})));
    for (std::int64_t i = 0; i < config_.local.launch.workers; ++i) {
      const std::string id = "w" + std::to_string(i);
      BUTTRESS_RETURN_IF_ERROR(supervisor_.Start(
          "worker-" + id, Command({SiblingProgram("rollout_worker")}, {"local.worker.id=" + id})));
    }
    return supervisor_.Start("learner", LearnerCommand());
  }

  std::vector<std::string> Command(std::vector<std::string> argv,
                                   const std::vector<std::string>& more) const {
    argv.insert(argv.end(), {"--config", options_.config_path});
    for (const auto* list : {&options_.overrides, &more}) {
      for (const std::string& override : *list) argv.insert(argv.end(), {"--set", override});
    }
    return argv;
  }

  std::vector<std::string> LearnerCommand() const {
    const LaunchConfig& launch = config_.local.launch;
    const std::string ranks = std::to_string(launch.learner_ranks);
    std::vector<std::string> argv = {launch.mpirun, "-np",  ranks,
                                     "--bind-to",   "none", "--oversubscribe"};
    if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
    if (const std::string& interface = config_.local.learner.interface; !interface.empty()) {
      argv.insert(argv.end(),
                  {"--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include",
                   interface, "-x", "NCCL_SOCKET_IFNAME=" + interface});
    }
    argv.insert(argv.end(), launch.mpirun_args.begin(), launch.mpirun_args.end());
    argv.push_back(SiblingProgram("learner"));
    argv.insert(argv.end(), {"--expect-world", ranks});
    return Command(std::move(argv), {});
  }

  // Until the learner has done the last step.
  Status Watch() {
    while (!supervisor_.Done("learner")) {
      if (WaitForShutdown(kTick)) return Cancelled("interrupted");
      BUTTRESS_RETURN_IF_ERROR(supervisor_.Tick());
      BUTTRESS_RETURN_IF_ERROR(ShowNewSteps());
    }
    return ShowNewSteps();
  }

  Status ShowNewSteps() {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(JoinPath(out_, "steps.jsonl"), error);
    if (error || bytes == steps_bytes_) return OkStatus();
    steps_bytes_ = bytes;
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepRecord> records,
                              ReadSteps(JoinPath(out_, "steps.jsonl")));
    for (const StepRecord& record : records) {
      // Steps done again after a restart were shown before.
      if (record.step <= shown_step_) continue;
      shown_step_ = record.step;
      Say(StepLine(record, config_.run.steps, SecondsLeft(records, config_.run.steps)));
    }
    return OkStatus();
  }

  // The run is done: workers hear it from the coordinator and leave by themselves.
  void Finish() {
    supervisor_.ExpectExits();
    constexpr std::int64_t kLeaveMs = 5000;
    if (!supervisor_.Stop("worker-", 0, kLeaveMs))
      supervisor_.Stop("worker-", SIGTERM, config_.local.launch.stop_timeout_ms);
    supervisor_.Stop("coordinator", SIGTERM, config_.local.launch.stop_timeout_ms);
  }

  // A second Ctrl-C ends this process at once; the children see their parent die.
  void StopAll() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    supervisor_.ExpectExits();
    const std::int64_t timeout_ms = config_.local.launch.stop_timeout_ms;
    Say("launch: stopping: the learner checkpoints, then everything leaves");
    if (!supervisor_.Stop("learner", SIGUSR1, timeout_ms))
      supervisor_.Stop("learner", SIGTERM, timeout_ms);
    supervisor_.Stop("worker-", SIGTERM, timeout_ms);
    supervisor_.Stop("coordinator", SIGTERM, timeout_ms);
  }

  // Accuracy of a model folder on the held-out prompts, remembered in <out>/eval_<when>.json so
  // that a resumed run does not repeat it.
  Status Evaluate(const std::string& when, const std::string& model,
                  std::optional<Accuracy>& accuracy) {
    if (!options_.evaluate || config_.run.data.held_out.empty()) return OkStatus();
    const std::string path = JoinPath(out_, "eval_" + when + ".json");
    if (!std::filesystem::exists(path)) {
      Say("launch: held-out accuracy " + when + " training ...");
      const std::string log = JoinPath(out_, "logs/eval_" + when + ".log");
      const std::string part = path + ".part";
      auto argv = Command({SiblingProgram("rollout_worker"), "eval", "--model", model, "--prompts",
                           config_.run.data.held_out, "--json", "--out", part},
                          {});
      BUTTRESS_ASSIGN_OR_RETURN(Process process, Process::Start(argv, log));
      const bool ended =
          WaitUntil(kEvalTimeoutMs, [&] { return !process.Running() || ShutdownRequested(); });
      if (ShutdownRequested()) return Cancelled("interrupted");
      if (!ended || process.exit_code() != 0) {
        return Unavailable("the evaluation of " + model + " failed: " + LastWords(log) +
                           "; whole log: " + log);
      }
      std::error_code error;
      std::filesystem::rename(part, path, error);
      if (error) return Unavailable("the evaluation wrote no " + part + ": " + error.message());
    }
    BUTTRESS_ASSIGN_OR_RETURN(accuracy, ReadAccuracy(path));
    char line[120];
    std::snprintf(line, sizeof line,
                  "launch: held-out accuracy %s training: %.1f %% of %lld prompts (greedy)",
                  when.c_str(), 100 * accuracy->accuracy,
                  static_cast<long long>(accuracy->prompts));
    Say(line);
    return OkStatus();
  }

  Status Conclude() {
    RunSummary summary;
    summary.before = accuracy_before_;
    summary.after = accuracy_after_;
    summary.wall_seconds = wall_seconds_;
    summary.restarts = supervisor_.restarts();
    summary.peak_rss_bytes = supervisor_.peak_rss_bytes();
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, WriteSummary(config_, summary));
    Say(text);
    return OkStatus();
  }

  const LaunchOptions& options_;
  const RunConfig& config_;
  const std::string out_;
  Supervisor supervisor_;
  std::optional<Accuracy> accuracy_before_;
  std::optional<Accuracy> accuracy_after_;
  std::int64_t shown_step_ = 0;
  std::uintmax_t steps_bytes_ = 0;
  double started_ = 0;
  double wall_seconds_ = 0;
};

}  // namespace

Status Launch(const LaunchOptions& options, const RunConfig& config) {
  InstallShutdownHandlers();
  return Launcher(options, config).Run();
}

}  // namespace buttress
