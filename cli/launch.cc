// `buttress launch FILE`: starts the coordinator, the rollout workers and `mpirun ... learner` on
// this machine and supervises them until the run is finished.
//
// A process that dies is restarted, with backoff and a bound. The loss of one learner rank ends
// mpirun, so the whole learner job is restarted. Exit codes 2 (configuration), 4 (data), 5 (nothing
// to learn) and 6 (memory) are not restarted, because a second attempt cannot succeed. On SIGINT or
// SIGTERM the learner writes a checkpoint first (SIGUSR1, which mpirun forwards), because mpirun
// kills its ranks one second after it receives a SIGTERM itself.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/checks/resume_check.h"
#include "cli/checks/run_checks.h"
#include "cli/command.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/mpirun_command.h"
#include "cli/fleet/ssh_session.h"
#include "cli/log_notices.h"
#include "cli/operations/fork_run.h"
#include "cli/operations/run_folder.h"
#include "cli/process.h"
#include "cli/run_client.h"
#include "cli/step_line.h"
#include "cli/summary.h"
#include "cli/supervisor.h"
#include "cli/targets_file.h"
#include "cli/waiting.h"
#include "cli/worker_gpus.h"
#include "lib/base/busy_mark.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/nothing_to_learn.h"
#include "lib/base/shutdown.h"
#include "lib/checks/report.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_folder.h"
#include "lib/config/sources.h"
#include "lib/ledger/reader.h"
#include "lib/measure/eval_file.h"
#include "lib/measure/pending_evals.h"
#include "lib/measure/steps_file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTick(100);
// The console is never silent for ten seconds: the run is asked a while before what it waits for.
constexpr double kAskAfterSeconds = 6, kTellAfterSeconds = 9;
constexpr std::int64_t kEvalTimeoutMs = 3600 * 1000;

struct LaunchOptions {
  RunFile file;
  HostsFlags hosts;
  std::string from;      // RUN[@STEP]: begin with a checkpoint of that run
  bool fresh = false;    // moves the folder of an earlier run aside instead of resuming it
  bool check = false;    // checks the run and starts nothing
  bool evaluate = true;  // measures the accuracy on run.data.held_out before and after training
};

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// A path as a user types it: relative to the working folder where that is shorter.
std::string AsTyped(const std::string& path) {
  const std::string relative = fs::path(path).lexically_proximate(fs::current_path()).string();
  return relative.size() < path.size() ? relative : path;
}

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const RunConfig& config, std::optional<Fleet> fleet)
      : options_(options),
        config_(config),
        fleet_(std::move(fleet)),
        out_(config.local.out),
        supervisor_(JoinPath(out_, "logs"), static_cast<int>(config.local.launch.max_restarts)),
        targets_(out_, config.run.name),
        steps_tail_(JoinPath(out_, "steps.jsonl")) {}

  // Returns OK when the last step is settled and the summary is written, and kCancelled after an
  // interrupt and a clean stop, or after `buttress stop`.
  Status Run() {
    BUTTRESS_RETURN_IF_ERROR(Prepare());
    const Status status = RunToTheEnd();
    supervisor_.ExpectExits();
    // Whatever happened above, no process of this run outlives this one.
    if (const int killed = KillDescendants(); killed > 0)
      PrintLine(fmt::format("launch: killed {} processes that did not stop", killed));
    return status;
  }

 private:
  Status Prepare() {
    if (options_.fresh && fs::exists(out_)) BUTTRESS_RETURN_IF_ERROR(MoveEarlierRunAside());
    if (!options_.from.empty()) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::string begin, ForkRun(options_.from, config_));
      PrintLine("launch: " + begin);
    }
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(JoinPath(out_, "logs")));
    BUTTRESS_ASSIGN_OR_RETURN(lock_, FolderLock::Take(out_));
    if (fs::exists(JoinPath(out_, "summary.json"))) BUTTRESS_RETURN_IF_ERROR(LengthenFinishedRun());
    SetChildSubreaper();
    return fleet_ ? CheckFleet() : ChooseGpus();
  }

  // A run that is at work is left alone.
  Status MoveEarlierRunAside() const {
    BUTTRESS_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(out_));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string aside, MoveAside(out_));
    PrintLine("launch: moved the earlier run to " + aside);
    return OkStatus();
  }

  Status CheckFleet() {
    Findings findings;
    BUTTRESS_RETURN_IF_ERROR(fleet_->Check(config_, findings));
    for (const Finding& finding : findings.list())
      if (finding.severity == Severity::kWarning)
        PrintLine(fmt::format("launch: {}: {}", finding.check, finding.text));
    return OkStatus();
  }

  // The length of a run of this folder, whose ledger has the rows that run.epochs counts; 0 before
  // the coordinator's first write.
  std::int64_t StepsOfRun(const RunSettings& run) const {
    if (run.epochs == 0) return run.steps;
    const auto reader = LedgerReader::Open(JoinPath(out_, "ledger.db"));
    const auto row = reader.ok() ? (*reader)->Run() : reader.status();
    std::uint64_t rows = 0;
    if (row.ok() && *row) {
      for (const SourceRow& source : (*row)->sources) rows += source.dataset.rows;
    }
    return StepsOf(run, rows);
  }

  // A run that has ended goes on if run.steps or run.epochs was raised since.
  Status LengthenFinishedRun() const {
    const auto stored = LoadRunConfig(StoredConfigPath(out_), {});
    const std::int64_t was = stored.ok() ? StepsOfRun(stored->run) : 0;
    if (!stored.ok() || StepsOfRun(config_.run) <= was) {
      return FailedPrecondition(
          "the run in " + out_ +
          " is finished; start it again with --fresh, lengthen it with a larger run.steps or "
          "run.epochs, or set local.out to another folder");
    }
    for (const char* result : {"eval_after.json", "summary.json"}) {
      std::error_code error;
      fs::remove(JoinPath(out_, result), error);
      if (error)
        return Unavailable(fmt::format("cannot remove {}/{}: {}", out_, result, error.message()));
    }
    PrintLine(fmt::format("launch: the run of {} steps in {} goes on to step {}", was, out_,
                          StepsOfRun(config_.run)));
    return OkStatus();
  }

  Status ChooseGpus() {
    if (!WorkersNeedGpus(config_.local)) return OkStatus();
    const Result<int> visible = CountCudaDevices();
    if (!visible.ok()) {
      return FailedPrecondition("local.worker.device: cuda: " + visible.status().message() +
                                "; use cpu, or check nvidia-smi");
    }
    BUTTRESS_ASSIGN_OR_RETURN(worker_gpus_, AssignWorkerGpus(config_.local, *visible));
    return OkStatus();
  }

  Status RunToTheEnd() {
    BUTTRESS_RETURN_IF_ERROR(Evaluate("before", config_.run.model.path, accuracy_before_));
    started_ = MonotonicSeconds();
    BUTTRESS_RETURN_IF_ERROR(StartAll());
    const Status status = Watch();
    wall_seconds_ = MonotonicSeconds() - started_;
    if (!status.ok()) {
      StopAll();
      return status;
    }
    BUTTRESS_ASSIGN_OR_RETURN(const v1::GetRunStatusResponse end, AskTheCoordinator());
    const bool ended = end.run_state() == v1::RUN_STATE_FINISHED || !end.end_reason().empty();
    const Status evaluated = ended ? FinishEvaluations() : OkStatus();
    WaitForExits();
    BUTTRESS_RETURN_IF_ERROR(evaluated);
    if (!ended) {
      return Cancelled(fmt::format("the run was stopped after step {} of {}; launch resumes it",
                                   printed_step_, StepsOfRun(config_.run)));
    }
    BUTTRESS_RETURN_IF_ERROR(Evaluate("after", JoinPath(out_, "model"), accuracy_after_));
    return WriteResults(end.end_reason());
  }

  Status StartAll() {
    notices_ = std::make_unique<LogNotices>(JoinPath(out_, "logs"));
    BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                              LoadCredentials(config_.local.security, Program::kStatus));
    waiting_ = std::make_unique<WaitingWatch>(config_, credentials);
    step_seconds_ = said_seconds_ = MonotonicSeconds();
    const LaunchConfig& launch = config_.local.launch;
    PrintLine(
        fmt::format("launch: {}: 1 coordinator, {} rollout workers, {} learner ranks; folder {}",
                    config_.run.name, launch.workers, launch.learner_ranks, out_));
    std::remove(PageLinkPath(out_).c_str());  // of an earlier start
    BUTTRESS_RETURN_IF_ERROR(
        supervisor_.Start("coordinator", CommandLine({SiblingProgram("coordinator")}, {})));
    for (std::int64_t i = 0; i < launch.workers; ++i) {
      BUTTRESS_RETURN_IF_ERROR(
          supervisor_.Start("worker-w" + std::to_string(i), WorkerCommandLine(i)));
    }
    BUTTRESS_RETURN_IF_ERROR(StartTracking());
    BUTTRESS_RETURN_IF_ERROR(StartEvaluator());
    return supervisor_.Start("learner", LearnerCommandLine());
  }

  Status StartTracking() {
    const TrackConfig& track = config_.local.track;
    if (!track.tensorboard && track.mlflow.empty()) return OkStatus();
    return supervisor_.Start("track",
                             CommandLine({SiblingProgram("buttress"), "track", "--follow"}, {}));
  }

  Status StartEvaluator() {
    if (config_.run.eval.every == 0) return OkStatus();
    ReadNewEvals().status().IgnoreError();  // those of an earlier start are not told
    return supervisor_.Start("evaluator",
                             CommandLine({SiblingProgram("rollout_worker"), "evaluator"}, {}),
                             Supervisor::Need::kOptional);
  }

  // Returns the evaluations that were written since the last call.
  Result<std::vector<EvalRow>> ReadNewEvals() {
    std::vector<EvalRow> rows;
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(EvalsPath(out_), error);
    if (error || bytes == evals_bytes_) return rows;
    evals_bytes_ = bytes;
    BUTTRESS_ASSIGN_OR_RETURN(rows, ReadEvals(out_));
    std::erase_if(rows, [this](const EvalRow& row) { return row.time_unix <= evals_time_; });
    if (!rows.empty()) evals_time_ = rows.back().time_unix;
    return rows;
  }

  void PrintNewEvals() {
    const auto rows = ReadNewEvals();
    if (!rows.ok()) return Say("launch: " + rows.status().message());
    for (const EvalRow& row : *rows) Say("launch: " + EvalLine(row));
  }

  // The weights of the last steps may wait for their evaluation.
  Status FinishEvaluations() {
    if (config_.run.eval.every == 0) return OkStatus();
    Status status;
    WaitUntil(kEvalTimeoutMs, [&] {
      if (SilentSeconds() > kTellAfterSeconds) SayWaiting("the last evaluations");
      status = supervisor_.Tick();
      PrintNewEvals();
      return !status.ok() || ListPendingEvals(out_).empty() || ShutdownRequested() ||
             supervisor_.GivenUp("evaluator");
    });
    return ShutdownRequested() ? Cancelled("interrupted") : status;
  }

  // Appends the configuration file, the overrides of the user and `more` overrides to `argv`.
  std::vector<std::string> CommandLine(std::vector<std::string> argv,
                                       const std::vector<std::string>& more) const {
    for (std::string& argument : options_.file.Arguments()) argv.push_back(std::move(argument));
    for (const std::string& override : more) argv.insert(argv.end(), {"--set", override});
    return argv;
  }

  std::vector<std::string> WorkerCommandLine(std::int64_t worker) const {
    if (fleet_) return fleet_->WorkerCommand(config_, worker);
    std::vector<std::string> own = {"local.worker.id=w" + std::to_string(worker)};
    if (!worker_gpus_.empty())
      own.push_back("local.worker.gpu=" +
                    std::to_string(worker_gpus_[static_cast<std::size_t>(worker)]));
    return CommandLine({SiblingProgram("rollout_worker")}, own);
  }

  std::vector<std::string> LearnerCommandLine() const {
    const auto hosts = fleet_ ? fleet_->MpirunArguments() : std::vector<std::string>();
    std::vector<std::string> argv = MpirunCommand(config_.local, hosts);
    argv.push_back(SiblingProgram("learner"));
    argv.insert(argv.end(), {"--expect-world", std::to_string(config_.local.launch.learner_ranks)});
    if (hosts.empty()) return CommandLine(std::move(argv), {});
    argv.insert(argv.end(), {"--config", SentConfigPath(out_)});  // the same on every machine
    return argv;
  }

  // Returns OK when the learner has finished the last step, or has left because the run is stopped.
  Status Watch() {
    while (!supervisor_.Done("learner")) {
      if (WaitForShutdown(kTick)) return Cancelled("interrupted");
      // Notices come first: they say why a process ended.
      for (const std::string& notice : notices_->Poll()) Say(notice);
      BUTTRESS_RETURN_IF_ERROR(supervisor_.Tick());
      PrintPageLink();
      BUTTRESS_RETURN_IF_ERROR(PrintNewSteps());
      PrintNewEvals();
      BUTTRESS_RETURN_IF_ERROR(targets_.Refresh());
      TellWhatIsWaitedFor();
    }
    for (const std::string& notice : notices_->Poll()) Say(notice);
    return PrintNewSteps();
  }

  void PrintPageLink() {
    if (page_told_) return;
    const Result<std::string> link = ReadFile(PageLinkPath(out_));
    if (!link.ok()) return;
    page_told_ = true;
    Say("launch: page of the run, for one browser (`buttress status` has the next link): " +
        link->substr(0, link->find('\n')));
  }

  void TellWhatIsWaitedFor() {
    if (SilentSeconds() > kAskAfterSeconds) waiting_->Ask();
    if (SilentSeconds() > kTellAfterSeconds) SayWaiting(waiting_->Text());
  }

  void SayWaiting(const std::string& what) {
    Say(fmt::format("launch: {:.0f} s after {}: waits for {}", MonotonicSeconds() - step_seconds_,
                    printed_step_ > 0 ? fmt::format("step {:.0f}", printed_step_) : "the start",
                    what));
  }

  void Say(const std::string& line) {
    PrintLine(line);
    said_seconds_ = MonotonicSeconds();
  }

  double SilentSeconds() const { return MonotonicSeconds() - said_seconds_; }

  Status PrintNewSteps() {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps, steps_tail_.Next());
    if (!steps.empty() && total_steps_ == 0) total_steps_ = StepsOfRun(config_.run);
    for (const StepMeasurements& step : steps) {
      // A restarted learner repeats the steps after its checkpoint; they are printed once.
      while (!last_steps_.empty() && last_steps_.back().step >= step.step) last_steps_.pop_back();
      last_steps_.push_back(step);
      if (last_steps_.size() > kPaceSteps) last_steps_.erase(last_steps_.begin());
      if (step.step <= printed_step_) continue;
      printed_step_ = step.step;
      Say(StepLine(step, total_steps_, SecondsLeft(last_steps_, total_steps_)));
      step_seconds_ = MonotonicSeconds();
    }
    return OkStatus();
  }

  // The coordinator tells the workers that the run is finished, and they exit by themselves.
  void WaitForExits() {
    constexpr std::int64_t kExitMs = 5000;
    supervisor_.ExpectExits();
    if (!supervisor_.Stop("worker-", 0, {kExitMs})) supervisor_.Stop("worker-", SIGTERM, Clean());
    supervisor_.Stop("evaluator", SIGTERM, Clean());
    supervisor_.Stop("track", SIGTERM, Clean());
    supervisor_.Stop("coordinator", SIGTERM, Clean());
  }

  Result<v1::GetRunStatusResponse> AskTheCoordinator() {
    constexpr std::int64_t kOneAttemptMs = 1;
    BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                              ConnectToRun({options_.file.path, options_.file.overrides},
                                           Program::kStatus, kOneAttemptMs));
    return AskHowItEnded(*client, supervisor_, [this] {
      if (SilentSeconds() > kTellAfterSeconds) SayWaiting("the coordinator, which does not answer");
    });
  }

  // A second Ctrl-C ends this process at once; the kernel then sends SIGTERM to the children.
  void StopAll() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    supervisor_.ExpectExits();
    PrintLine("launch: stopping; the learner writes a checkpoint, then every process exits");
    Supervisor::Patience learner = Clean();
    learner.busy = [this] {
      if (SilentSeconds() > kTellAfterSeconds) SayWaiting("the learner to leave");
      return IsBusy(CheckpointMark(out_));
    };
    learner.busy_ms = config_.local.learner.stuck_timeout_ms;
    // Before the first step there is nothing to write, and perhaps nobody who heeds SIGUSR1 yet.
    const bool read = PrintNewSteps().ok();
    if ((read && printed_step_ == 0) || !supervisor_.Stop("learner", SIGUSR1, learner))
      supervisor_.Stop("learner", SIGTERM, Clean());
    supervisor_.Stop("worker-", SIGTERM, Clean());
    supervisor_.Stop("evaluator", SIGTERM, Clean());
    supervisor_.Stop("track", SIGTERM, Clean());
    supervisor_.Stop("coordinator", SIGTERM, Clean());
  }

  Supervisor::Patience Clean() const { return {config_.local.launch.stop_timeout_ms}; }

  // Measures the accuracy of a model folder on the held-out prompts and stores it in
  // <out>/eval_<when>.json, so that a resumed run does not repeat the evaluation.
  Status Evaluate(const std::string& when, const std::string& model,
                  std::optional<Accuracy>& accuracy) {
    if (!options_.evaluate || config_.run.data.held_out.empty()) return OkStatus();
    const std::string path = JoinPath(out_, "eval_" + when + ".json");
    if (!fs::exists(path)) BUTTRESS_RETURN_IF_ERROR(RunEvaluation(when, model, path));
    BUTTRESS_ASSIGN_OR_RETURN(accuracy, ReadAccuracy(path));
    PrintLine(fmt::format("launch: held-out accuracy {} training: {} of {} prompts (greedy)", when,
                          accuracy->Text(), accuracy->prompts));
    return OkStatus();
  }

  Status RunEvaluation(const std::string& when, const std::string& model, const std::string& path) {
    PrintLine("launch: held-out accuracy " + when + " training ...");
    const std::string log = JoinPath(out_, "logs/eval_" + when + ".log");
    const std::string part = path + ".part";
    auto argv = CommandLine({SiblingProgram("rollout_worker"), "eval", "--model", model,
                             "--prompts", config_.run.data.held_out, "--json", "--out", part},
                            {});
    BUTTRESS_ASSIGN_OR_RETURN(Process process, Process::Start(argv, log));
    const bool ended = WaitUntil(kEvalTimeoutMs, [&] {
      if (SilentSeconds() > kTellAfterSeconds) SayWaiting("the held-out accuracy " + when);
      return !process.Running() || ShutdownRequested();
    });
    if (ShutdownRequested()) return Cancelled("interrupted");
    if (ended && process.exit_code() == ExitCode(NothingToLearn("")))
      return NothingToLearn("the evaluation " + when +
                            " training got no verdict: " + LastErrorInLog(log));
    if (!ended || process.exit_code() != 0) {
      return Unavailable(fmt::format("the evaluation of {} failed: {}; whole log: {}", model,
                                     LastErrorInLog(log), log));
    }
    std::error_code error;
    fs::rename(part, path, error);
    if (error) return Unavailable("the evaluation wrote no " + part + ": " + error.message());
    return OkStatus();
  }

  Status WriteResults(const std::string& end_reason) {
    RunSummary summary;
    summary.before = accuracy_before_;
    summary.after = accuracy_after_;
    summary.wall_seconds = wall_seconds_;
    summary.restarts = supervisor_.restarts();
    summary.peak_rss_bytes = supervisor_.peak_rss_bytes();
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, WriteSummary(config_, summary));
    PrintLine(text + WhatToDoNext());
    if (!end_reason.empty()) {
      PrintLine(fmt::format("launch: {}; ended after step {:.0f} of {}", end_reason, printed_step_,
                            StepsOfRun(config_.run)));
    }
    return OkStatus();
  }

  std::string WhatToDoNext() const {
    const std::string command = AsTyped(SiblingProgram("buttress"));
    const Estimator other =
        config_.run.algorithm.advantage == Estimator::kGrpo ? Estimator::kAvspo : Estimator::kGrpo;
    return fmt::format(
        "\nlook at it\n"
        "  open {0}/curves.svg in a browser\n"
        "  {1} explain {0}        # why groups gave no signal, and what to change\n"
        "try next\n"
        "  {1} launch {2} --set run.algorithm.advantage={3} --set local.out={0}-{3}\n"
        "  your own model and data: README.md, \"Your own model and data\"",
        AsTyped(out_), command, options_.file.path, ChoiceName(other));
  }

  const LaunchOptions& options_;
  const RunConfig& config_;
  std::optional<Fleet> fleet_;  // --hosts
  const std::string out_;
  std::optional<FolderLock> lock_;  // of the run folder
  Supervisor supervisor_;
  TargetsFile targets_;
  std::unique_ptr<LogNotices> notices_;    // from StartAll on
  std::unique_ptr<WaitingWatch> waiting_;  // from StartAll on
  double said_seconds_ = MonotonicSeconds();
  double step_seconds_ = said_seconds_;  // the last step was printed
  std::vector<int> worker_gpus_;         // empty: no worker is given one
  std::optional<Accuracy> accuracy_before_;
  std::optional<Accuracy> accuracy_after_;
  StepsTail steps_tail_;
  std::vector<StepMeasurements> last_steps_;  // kPaceSteps at most
  double printed_step_ = 0;
  std::uintmax_t evals_bytes_ = 0;  // of eval.jsonl when it was read last
  double evals_time_ = 0;           // of the newest evaluation that was printed
  std::int64_t total_steps_ = 0;    // 0 before the first step
  bool page_told_ = false;
  double started_ = 0;
  double wall_seconds_ = 0;
};

}  // namespace

std::function<Status()> AddLaunch(CLI::App& app) {
  const auto options = std::make_shared<LaunchOptions>();
  AddConfigFile(app, options->file.path)->required();
  app.add_option("--set", options->file.overrides,
                 "override a setting, for example run.optim.lr=1e-5; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--fresh", options->fresh,
               "move the folder of an earlier run aside instead of resuming it");
  app.add_option("--from", options->from,
                 "begin a new run with the newest checkpoint of another, or that of a step: a run "
                 "folder or YAML file, for example runs/x@40");
  app.add_flag("!--no-eval", options->evaluate, "skip the held-out accuracy before and after");
  app.add_flag("--check", options->check, "check everything that can be, and start nothing")
      ->excludes("--from");
  options->hosts.AddTo(app);
  return [options]() -> Status {
    RunFile& file = options->file;
    if (options->check)
      return ReportChecks(CheckRunFile(file, options->hosts, options->fresh), /*as_json=*/false);
    BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(file.path, file.overrides));
    BUTTRESS_ASSIGN_OR_RETURN(std::optional<Fleet> fleet, options->hosts.Load(config.local, file));
    if (fleet) {
      BUTTRESS_ASSIGN_OR_RETURN(config, LoadRunConfig(file.path, file.overrides));
    }
    const LaunchConfig& launch = config.local.launch;
    const ProcessCounts here =
        fleet ? fleet->Here() : ProcessCounts{launch.workers, launch.learner_ranks};
    Findings findings = CheckRun(config, here, CheckDepth::kQuick);
    if (!options->fresh) CheckResume(config, findings);
    BUTTRESS_RETURN_IF_ERROR(findings.Verdict());
    InstallShutdownHandlers();
    return Launcher(*options, config, std::move(fleet)).Run();
  };
}

}  // namespace buttress
