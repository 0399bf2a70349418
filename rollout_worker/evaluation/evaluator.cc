#include "rollout_worker/evaluation/evaluator.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/policy/exception_status.h"
#include "rollout_worker/evaluation/local_models.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPoll(200);
constexpr int kNice = 10;  // the training comes first

EvalOptions OptionsFor(const RunConfig& config, const PendingEval& pending) {
  EvalOptions options = EvalOptionsOf(config);
  const EvaluatorConfig& local = config.local.evaluator;
  (HasAdapters(pending.folder) ? options.adapter : options.model.path) = pending.folder;
  options.reward.python.output = RewardOutputPath(config.local.out);
  options.worker.device = local.device;
  options.worker.gpu = local.gpu;
  options.worker.threads = local.threads;
  options.sampling.temperature = config.run.eval.temperature;
  options.limit = config.run.eval.prompts;
  options.completions = config.run.eval.samples;
  return options;
}

EvalRow RowOf(const EvalResult& result, const PendingEval& pending, double temperature) {
  EvalRow row;
  row.step = pending.step;
  row.learner_epoch = pending.learner_epoch;
  row.time_unix = static_cast<double>(RealClock().UnixMs()) / 1000;
  const std::int64_t scorable = result.correct + result.wrong;
  if (scorable > 0) {
    row.accuracy = result.accuracy();
    row.raw_reward_mean = result.raw_reward / static_cast<double>(scorable);
  }
  row.prompts = result.prompts;
  row.completions = result.completions;
  row.unscorable = result.unscorable;
  row.truncated = result.truncated;
  row.tokens = result.tokens;
  row.temperature = temperature;
  row.seconds = result.seconds;
  const EpisodeTotals& episodes = result.episodes;
  if (episodes.episodes > 0) {
    row.episodes = {episodes.Mean(episodes.turns), episodes.Mean(episodes.tool_calls),
                    episodes.Mean(episodes.failed_tool_calls), episodes.Mean(episodes.at_limit())};
  }
  return row;
}

Result<EvalResult> TryToEvaluate(const EvalOptions& options) {
  try {
    return Evaluate(options, &kLocalModels);
  } catch (const std::exception& e) {
    return StatusOf(e, "lower local.worker.kv_cache_tokens or local.worker.max_running");
  }
}

Result<std::optional<EvalRow>> FindRow(const std::string& out, const PendingEval& pending) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<EvalRow> rows, ReadEvals(out));
  const auto found = std::ranges::find_if(rows, [&pending](const EvalRow& row) {
    return row.step == pending.step && row.learner_epoch == pending.learner_epoch;
  });
  return found == rows.end() ? std::optional<EvalRow>() : *found;
}

// Takes the weights away: to <out>/best if they are the best, where it is kept.
Status Settle(const RunConfig& config, const PendingEval& pending, double accuracy) {
  if (config.run.checkpoints.keep_best > 0)
    return OfferBest(config.local.out, pending.folder, {pending.step, "eval_accuracy", accuracy});
  std::error_code error;
  std::filesystem::remove_all(pending.folder, error);
  return error ? Unavailable("cannot remove " + pending.folder + ": " + error.message())
               : OkStatus();
}

Status EvaluateOne(const RunConfig& config, const PendingEval& pending) {
  const std::string& out = config.local.out;
  // A row is there if the process was killed after it had written it.
  BUTTRESS_ASSIGN_OR_RETURN(std::optional<EvalRow> row, FindRow(out, pending));
  if (!row) {
    const auto result = TryToEvaluate(OptionsFor(config, pending));
    if (result.status().code() == StatusCode::kCancelled || IsOutOfMemory(result.status()))
      return result.status();
    if (!std::filesystem::exists(pending.folder)) return OkStatus();  // the learner went back
    if (!result.ok()) {
      Log(kError, "the weights of a step could not be evaluated",
          {{"step", pending.step}, {"why", result.status().message()}});
      return Settle(config, pending, EvalRow::kNotMeasured);
    }
    row = RowOf(*result, pending, config.run.eval.temperature);
    auto newest = nlohmann::ordered_json::parse(EvalToJson(*row));
    newest["by_row"] = result->scores.ByRow();
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(NewestEvalPath(out), newest.dump() + "\n"));
    BUTTRESS_RETURN_IF_ERROR(AddEval(out, *row));
    Log(kInfo, "evaluated",
        {{"step", row->step},
         {"accuracy", row->accuracy},
         {"completions", row->completions},
         {"seconds", row->seconds}});
  }
  return Settle(config, pending, row->accuracy);
}

Status Follow(const RunConfig& config) {
  if (config.run.eval.every == 0)
    return InvalidArgument("run.eval.every is 0: the run leaves no weights to evaluate");
  ::setpriority(PRIO_PROCESS, 0, kNice);
  while (!ShutdownRequested()) {
    BUTTRESS_RETURN_IF_ERROR(EvaluatePending(config));
    WaitForShutdown(kPoll);
  }
  return OkStatus();
}

}  // namespace

Status EvaluatePending(const RunConfig& config) {
  for (const PendingEval& pending : ListPendingEvals(config.local.out)) {
    if (ShutdownRequested()) return Cancelled("interrupted");
    BUTTRESS_RETURN_IF_ERROR(EvaluateOne(config, pending));
  }
  return OkStatus();
}

int RunEvaluatorCommand(int argc, char** argv) {
  CLI::App app("Evaluates the weights of a run on its held-out prompts (run.eval)", "evaluator");
  ConfigFlags flags;
  flags.AddTo(app);
  CLI11_PARSE(app, argc, argv);
  InstallShutdownHandlers();
  SetLogRole("evaluator");
  bool done = false;
  const auto config = LoadByFlags(flags, &done);
  if (config.ok() && done) return 0;
  Status status = config.ok() ? Follow(*config) : config.status();
  if (status.code() == StatusCode::kCancelled) status = OkStatus();
  if (!status.ok())
    std::fprintf(stderr, "rollout_worker evaluator: %s\n", status.ToString().c_str());
  return ExitCode(status);
}

}  // namespace buttress
