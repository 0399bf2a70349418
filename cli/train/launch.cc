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
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/checks/run_checks.h"
#include "cli/command.h"
#include "cli/compare/compare.h"
#include "cli/explain/run_report.h"
#include "cli/keep/fork_run.h"
#include "cli/keep/run_folder.h"
#include "cli/process.h"
#include "cli/run_client.h"
#include "cli/train/console.h"
#include "cli/train/next_steps.h"
#include "cli/train/programs.h"
#include "cli/train/seed_runs.h"
#include "cli/train/summary.h"
#include "cli/understand/run_page.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/status.h"
#include "lib/checks/program_checks.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/reader.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/steps_file.h"
#include "lib/weights/adapter_files.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTick(100);
constexpr std::int64_t kEvalsMs = 3600 * 1000;

struct LaunchOptions {
  RunFile file;
  HostsFlags hosts;
  std::string from;        // RUN[@STEP]: begin with a checkpoint of that run
  bool fresh = false;      // moves the folder of an earlier run aside instead of resuming it
  bool check = false;      // checks the run and starts nothing
  bool evaluate = true;    // measures the accuracy on run.data.held_out before and after training
  bool verbose = false;    // prints a long line for each step
  std::int64_t seeds = 0;  // makes so many runs with seeds in a row; 0: this run alone
};

// Returns the step of the newest checkpoint: in the folder of the run, or where its learner has
// another one, in the ledger. 0 without a checkpoint.
std::int64_t CheckpointStep(const std::string& out) {
  const std::vector<std::int64_t> steps = CheckpointSteps(JoinPath(out, "checkpoint"));
  if (!steps.empty()) return steps.front();
  const auto ledger = LedgerReader::Open(JoinPath(out, "ledger.db"));
  const auto run = ledger.ok() ? (*ledger)->Run() : ledger.status();
  return run.ok() && *run ? static_cast<std::int64_t>((*run)->checkpoint_step) : 0;
}

// A run from its folder to its results. The parts own the rest: Console what is printed,
// RunPrograms the processes, TargetsFile the addresses.
class Launcher {
 public:
  Launcher(const LaunchOptions& options, const RunConfig& config, std::optional<Fleet> fleet)
      : options_(options),
        config_(config),
        out_(config.local.out),
        console_(config, options.verbose),
        programs_(options.file, config, std::move(fleet),
                  [this](const std::string& line) { console_.Warn(line); }),
        targets_(out_, config.run.name) {}

  void ShowWarnings(const Findings& findings) {
    for (const Finding& finding : findings.list())
      if (finding.severity == Severity::kWarning)
        console_.Warn(fmt::format("launch: warning: {}: {}", finding.check, finding.text));
  }

  // Returns OK when the last step is settled and the summary is written, or was before, and
  // kCancelled after an interrupt and a clean stop, or after `buttress stop`.
  Status Run() {
    BUTTRESS_RETURN_IF_ERROR(Prepare());
    if (was_finished_) return OkStatus();
    const Status status = RunToTheEnd();
    supervisor().ExpectExits();
    // Whatever happened above, no process of this run outlives this one.
    if (const int killed = KillDescendants(); killed > 0)
      console_.Say(fmt::format("launch: killed {} processes that did not stop", killed));
    return status;
  }

 private:
  Supervisor& supervisor() { return programs_.supervisor(); }

  Status Prepare() {
    if (options_.fresh && IsRunFolder(out_)) BUTTRESS_RETURN_IF_ERROR(MoveEarlierRunAside());
    if (!options_.from.empty()) {
      BUTTRESS_ASSIGN_OR_RETURN(const std::string begin, ForkRun(options_.from, config_));
      console_.Say("launch: " + begin);
    }
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(JoinPath(out_, "logs")));
    BUTTRESS_ASSIGN_OR_RETURN(lock_, FolderLock::Take(out_));
    if (fs::exists(JoinPath(out_, "summary.json"))) BUTTRESS_RETURN_IF_ERROR(LengthenFinishedRun());
    if (was_finished_) return OkStatus();
    SetChildSubreaper();
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::string> warnings, programs_.Prepare());
    for (const std::string& warning : warnings) console_.Say("launch: " + warning);
    return OkStatus();
  }

  // A run that is at work is left alone.
  Status MoveEarlierRunAside() {
    BUTTRESS_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(out_));
    BUTTRESS_ASSIGN_OR_RETURN(const std::string aside, MoveAside(out_));
    console_.Say("launch: moved the earlier run to " + aside);
    return OkStatus();
  }

  // A run that has ended continues if run.steps or run.epochs was raised since.
  Status LengthenFinishedRun() {
    BUTTRESS_ASSIGN_OR_RETURN(const RunConfig stored, LoadRunConfig(StoredConfigPath(out_), {}));
    if (StepsOfRun(out_, config_.run) <= StepsOfRun(out_, stored.run)) {
      was_finished_ = true;
      BUTTRESS_ASSIGN_OR_RETURN(const auto newest,
                                ReadNewestSteps(JoinPath(out_, "steps.jsonl"), 1));
      console_.Say(fmt::format(
          "launch: the run in {} is finished{}; nothing to do. Raise run.steps or run.epochs to "
          "train further, or start it again with --fresh",
          out_, newest.empty() ? "" : fmt::format(" since step {:.0f}", newest.back().step)));
      return OkStatus();
    }
    for (const char* result : {"eval_after.json", "summary.json"}) {
      std::error_code error;
      fs::remove(JoinPath(out_, result), error);
      if (error)
        return Unavailable(fmt::format("cannot remove {}/{}: {}", out_, result, error.message()));
    }
    return OkStatus();
  }

  Status RunToTheEnd() {
    const std::string& adapter = config_.run.lora.adapter;
    BUTTRESS_RETURN_IF_ERROR(
        Evaluate("before", adapter.empty() ? config_.run.model.path : adapter, results_.before));
    const double started = MonotonicSeconds();
    BUTTRESS_RETURN_IF_ERROR(StartAll());
    const Status status = Watch();
    results_.wall_seconds = MonotonicSeconds() - started;
    if (!status.ok()) {
      StopAll();
      if (IsNothingToLearn(status) && Judge().ok())
        console_.Say("\n" + LearnedText(results_.learned));
      return status.code() == StatusCode::kCancelled ? Stopped() : status;
    }
    BUTTRESS_ASSIGN_OR_RETURN(const v1::GetRunStatusResponse end, AskTheCoordinator());
    const bool ended = end.run_state() == v1::RUN_STATE_FINISHED || !end.end_reason().empty();
    const Status evaluated = ended ? FinishEvaluations() : OkStatus();
    programs_.EndFinished();
    BUTTRESS_RETURN_IF_ERROR(evaluated);
    if (!ended) return Stopped();
    TakeLastEvaluation(end.version().learner_epoch(), end.version().step());
    BUTTRESS_RETURN_IF_ERROR(Evaluate("after", JoinPath(out_, "model"), results_.after));
    return WriteResults(end.end_reason());
  }

  Status Stopped() const {
    const std::int64_t checkpoint = CheckpointStep(out_);
    return Cancelled(
        fmt::format("the run was stopped after step {} of {}; the same command continues it {}",
                    console_.step(), StepsOfRun(out_, config_.run),
                    checkpoint > 0 ? fmt::format("from the checkpoint of step {}", checkpoint)
                                   : "from its start, as it has no checkpoint yet"));
  }

  // Measures the accuracy of the folder `model`, of a model or of adapters, on run.data.held_out,
  // `when` ("before" or "after") training, unless an earlier start has left it in eval_<when>.json.
  // NothingToLearn if no prompt got a verdict.
  Status Evaluate(const std::string& when, const std::string& model,
                  std::optional<Accuracy>& accuracy) {
    if (!options_.evaluate || config_.run.data.held_out.empty()) return OkStatus();
    const std::string path = JoinPath(out_, "eval_" + when + ".json");
    if (!fs::exists(path)) BUTTRESS_RETURN_IF_ERROR(RunEvaluation(when, model, path));
    BUTTRESS_ASSIGN_OR_RETURN(accuracy, ReadAccuracy(path));
    console_.Say(fmt::format("launch: held-out accuracy {} training: {} of {} prompts (greedy)",
                             when, accuracy->Text(), accuracy->prompts));
    return OkStatus();
  }

  // Takes the evaluator's accuracy of the last weights as that after training, if it is the same
  // measurement: greedy, one completion of every held-out prompt.
  void TakeLastEvaluation(std::uint64_t learner_epoch, std::uint64_t step) {
    const EvalConfig& eval = config_.run.eval;
    if (eval.every == 0 || eval.temperature != 0 || eval.samples != 1 || !results_.before) return;
    const auto text = ReadFile(NewestEvalPath(out_));
    const auto row = text.ok() ? ParseEval(*text) : text.status();
    if (!row.ok() || row->learner_epoch != learner_epoch ||
        row->step != static_cast<std::int64_t>(step) || row->prompts != results_.before->prompts ||
        !std::isfinite(row->accuracy))
      return;
    std::error_code error;
    fs::rename(NewestEvalPath(out_), JoinPath(out_, "eval_after.json"), error);
  }

  Status RunEvaluation(const std::string& when, const std::string& model, const std::string& path) {
    console_.Say("launch: held-out accuracy " + when + " training ...");
    const std::string log = JoinPath(out_, "logs/eval_" + when + ".log");
    const std::string part = path + ".part";
    std::vector<std::string> command = {
        SiblingProgram("rollout_worker"), "eval", "--json", "--out", part, "--prompts",
        config_.run.data.held_out};
    // A run of adapters leaves a folder of peft instead of a model.
    const bool adapted = fs::exists(JoinPath(model, kAdapterConfigName));
    command.insert(command.end(), {"--model", adapted ? config_.run.model.path : model});
    if (adapted) command.insert(command.end(), {"--adapter", model});
    const auto argv = programs_.CommandLine(std::move(command));
    BUTTRESS_ASSIGN_OR_RETURN(Process process, Process::Start(argv, log));
    const bool ended = WaitUntil(kEvalsMs, [&] {
      console_.SayWaiting("the held-out accuracy " + when + " training");
      return !process.Running() || ShutdownRequested();
    });
    if (ShutdownRequested()) return Cancelled("interrupted");
    if (ended && process.exit_code() == ExitCode(NothingToLearn(""))) {
      return NothingToLearn("the evaluation " + when +
                            " training got no verdict: " + LastErrorInLog(log));
    }
    if (!ended || process.exit_code() != 0) {
      return Unavailable(fmt::format("the evaluation of {} failed: {}; whole log: {}", model,
                                     LastErrorInLog(log), log));
    }
    std::error_code error;
    fs::rename(part, path, error);
    if (error) return Unavailable("the evaluation wrote no " + part + ": " + error.message());
    return OkStatus();
  }

  Status StartAll() {
    const LaunchConfig& launch = config_.local.launch;
    console_.Say(
        fmt::format("launch: {}: 1 coordinator, {} rollout workers, {} learner ranks; folder {}",
                    config_.run.name, launch.workers, launch.learner_ranks, out_));
    BUTTRESS_RETURN_IF_ERROR(console_.Follow(CheckpointStep(out_)));
    return programs_.Start();
  }

  // Returns OK when the learner has finished the last step, or has left because the run is stopped.
  Status Watch() {
    while (!supervisor().Done("learner")) {
      if (WaitForShutdown(kTick)) return Cancelled("interrupted");
      console_.ShowNotices();  // first: they say why a process ended
      BUTTRESS_RETURN_IF_ERROR(supervisor().Tick());
      console_.ShowPageLink();
      BUTTRESS_RETURN_IF_ERROR(console_.ShowSteps());
      console_.ShowEvals();
      BUTTRESS_RETURN_IF_ERROR(targets_.Refresh());
      console_.ShowWaiting();
    }
    console_.ShowNotices();
    return console_.ShowLastStep();
  }

  // The weights of the last steps may wait for their evaluation.
  Status FinishEvaluations() {
    if (config_.run.eval.every == 0) return OkStatus();
    Status status;
    WaitUntil(kEvalsMs, [&] {
      console_.SayWaiting("the last evaluations");
      status = supervisor().Tick();
      console_.ShowEvals();
      return !status.ok() || ListPendingEvals(out_).empty() || ShutdownRequested() ||
             supervisor().GivenUp("evaluator");
    });
    return ShutdownRequested() ? Cancelled("interrupted") : status;
  }

  // Asks how the run ended, once the learner has left with success: the learner does so also when
  // an operator has stopped the run, and then it has written no model. A coordinator that dies
  // before it has answered is started again, as during the run.
  Result<v1::GetRunStatusResponse> AskTheCoordinator() {
    constexpr std::int64_t kOneAttemptMs = 1;
    constexpr std::int64_t kStartMs = 60000;  // a coordinator serves within this time of its start
    BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                              ConnectToRun({options_.file.path, options_.file.overrides},
                                           Program::kStatus, kOneAttemptMs));
    int restarts = -1;
    std::int64_t give_up_ms = 0;
    while (true) {
      auto answer = client->GetRunStatus();
      if (answer.ok()) return answer;
      const bool down = answer.status().code() == StatusCode::kUnavailable ||
                        answer.status().code() == StatusCode::kDeadlineExceeded;
      if (!down) return answer.status().Annotate("asking how the run ended");
      if (WaitForShutdown(kTick)) return Cancelled("interrupted");
      BUTTRESS_RETURN_IF_ERROR(supervisor().Tick());
      const std::int64_t now_ms = RealClock().MonotonicMs();
      if (std::exchange(restarts, supervisor().restarts()) != supervisor().restarts())
        give_up_ms = now_ms + kStartMs;
      if (now_ms > give_up_ms) return answer.status().Annotate("asking how the run ended");
      console_.SayWaiting("the coordinator, which does not answer");
    }
  }

  // A second Ctrl-C ends this process at once; the kernel then sends SIGTERM to the children.
  void StopAll() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    console_.Say("launch: stopping; the learner writes a checkpoint, then every process exits");
    // Before the first step there is nothing to write, and perhaps nobody who heeds SIGUSR1 yet.
    const bool nothing_trained = console_.ShowSteps().ok() && !console_.took_steps();
    programs_.Stop(!nothing_trained, [this] { console_.SayWaiting("the learner to leave"); });
    console_.ShowLastStep().IgnoreError();
  }

  // Finds out whether the run learned. REQUIRES: every process of the run has ended.
  Status Judge() {
    BUTTRESS_ASSIGN_OR_RETURN(results_.learned, ReadLearned(out_, results_));
    if (!results_.learned.lacked_signal()) return OkStatus();
    BUTTRESS_ASSIGN_OR_RETURN(results_.learned.cause, LargestCause(out_));
    return OkStatus();
  }

  Status WriteResults(const std::string& end_reason) {
    results_.restarts = supervisor().restarts();
    results_.peak_rss_bytes = supervisor().peak_rss_bytes();
    BUTTRESS_RETURN_IF_ERROR(Judge());
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, WriteSummary(config_, results_));
    const Status page = WriteRunPage(config_, JoinPath(out_, "page.html"));
    if (!page.ok()) console_.Say("launch: no page.html: " + page.message());
    console_.Say(text + WhatToDoNext(Typed(), config_) + "\n\n" + LearnedText(results_.learned));
    if (!end_reason.empty()) {
      console_.Say(fmt::format("launch: {}; ended after step {} of {}", end_reason, console_.step(),
                               StepsOfRun(out_, config_.run)));
    }
    return OkStatus();
  }

  TypedLaunch Typed() const {
    TypedLaunch typed{options_.file, {}, !options_.hosts.path.empty(), options_.seeds};
    if (!options_.from.empty()) typed.flags = {"--from", options_.from};
    if (!options_.evaluate) typed.flags.emplace_back("--no-eval");
    return typed;
  }

  const LaunchOptions& options_;
  const RunConfig& config_;
  const std::string& out_;
  std::optional<FolderLock> lock_;  // of the run folder
  bool was_finished_ = false;       // before this launch
  Console console_;
  RunPrograms programs_;
  TargetsFile targets_;
  RunSummary results_;
};

Status LaunchOne(LaunchOptions options) {
  RunFile& file = options.file;
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, LoadRunConfig(file.path, file.overrides));
  BUTTRESS_ASSIGN_OR_RETURN(std::optional<Fleet> fleet, options.hosts.Load(config.local, file));
  if (fleet) {
    BUTTRESS_ASSIGN_OR_RETURN(config, LoadRunConfig(file.path, file.overrides));
  }
  const LaunchConfig& launch = config.local.launch;
  const ProcessCounts here =
      fleet ? fleet->Here() : ProcessCounts{launch.workers, launch.learner_ranks};
  Findings findings = RunChecks(config, CheckScope::kStart, here);
  CheckRunFolder(config, file.path, options.fresh, findings);
  if (!options.fresh) CheckResume(config, findings);
  BUTTRESS_RETURN_IF_ERROR(findings.Verdict());
  if (here.workers > 0) CheckNamedServers(config, file, findings);
  BUTTRESS_RETURN_IF_ERROR(findings.Verdict());
  InstallShutdownHandlers();
  Launcher launcher(options, config, std::move(fleet));
  launcher.ShowWarnings(findings);
  return launcher.Run();
}

// Runs one seed after the other and compares them. Those that are finished stay as they are.
Status LaunchSeeds(const LaunchOptions& options) {
  if (!options.hosts.path.empty()) {
    return InvalidArgument(
        "--seeds makes its runs on this machine alone; launch each with --hosts, --set run.seed=K "
        "and a local.out of its own, and compare them by `buttress compare`");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(options.file.path, options.file.overrides));
  const std::vector<RunFile> files = SeedRuns(options.file, config, options.seeds);
  std::vector<RunConfig> runs;
  for (const RunFile& file : files) {
    BUTTRESS_ASSIGN_OR_RETURN(runs.emplace_back(), LoadRunConfig(file.path, file.overrides));
    if (!options.fresh) BUTTRESS_RETURN_IF_ERROR(CheckSameSettings(runs.back()));
  }
  std::vector<std::string> folders;
  LaunchOptions one = options;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    one.file = files[i];
    folders.push_back(runs[i].local.out);
    const std::int64_t seed = runs[i].run.seed;
    fmt::print("launch: seed {}, run {} of {}\n", seed, i + 1, runs.size());
    std::fflush(stdout);
    BUTTRESS_RETURN_IF_ERROR(LaunchOne(one).Annotate(fmt::format("seed {}", seed)));
  }
  fmt::print("\n");
  const std::string place = SeedsFolder(config.local.out);
  return CompareAndPrint(folders, JoinPath(place, "compare.html"), JoinPath(place, "compare.json"));
}

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
  app.add_flag("--verbose", options->verbose,
               "print a line for each step, with classes of collapse, KL, ages, waits");
  app.add_option("--seeds", options->seeds,
                 "make so many runs, with run.seed and those after it, one after the other in "
                 "<out>-seeds/seed-*, and compare them; finished ones are not repeated")
      ->check(CLI::Range(2, 1000));
  options->hosts.AddTo(app);
  return [options]() -> Status {
    if (options->check)
      return CheckRunFile(options->file, options->hosts, options->fresh).Report(/*as_json=*/false);
    return options->seeds > 0 ? LaunchSeeds(*options) : LaunchOne(*options);
  };
}

}  // namespace buttress
