// `buttress track RUN`: shows the curves of a run in TensorBoard and MLflow.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/command.h"
#include "cli/track/event_file.h"
#include "cli/track/follow.h"
#include "cli/track/mlflow.h"
#include "cli/track/settings.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/shutdown.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/reader.h"
#include "lib/measure/pending_evals.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPoll(1000);
// Nobody may be there to evaluate what waits when the run has finished.
constexpr std::int64_t kLastEvaluationsMs = 3600 * 1000;

struct TrackFlags {
  std::string run;  // YAML file, or the folder of a run
  std::vector<std::string> overrides;
  bool tensorboard = false;
  std::string mlflow;
  bool follow = false;
};

Result<RunConfig> ConfigOf(const TrackFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.run);
  BUTTRESS_ASSIGN_OR_RETURN(
      RunConfig config,
      LoadRunConfig(is_folder ? StoredConfigPath(flags.run) : flags.run, flags.overrides));
  if (is_folder) config.local.out = flags.run;
  if (flags.tensorboard) config.local.track.tensorboard = true;
  if (!flags.mlflow.empty()) config.local.track.mlflow = flags.mlflow;
  BUTTRESS_RETURN_IF_ERROR(ValidateRunConfig(config));
  return config;
}

MlflowOptions MlflowOptionsOf(const RunConfig& config) {
  const char* token = std::getenv("MLFLOW_TRACKING_TOKEN");
  return {.url = config.local.track.mlflow,
          .token = token == nullptr ? "" : token,
          .experiment = config.local.track.experiment,
          .run_name = config.run.name,
          .settings = SettingsOf(config),
          .state_path = JoinPath(config.local.out, "mlflow.json")};
}

using Feeds = std::vector<std::unique_ptr<TrackerFeed>>;

Result<Feeds> OpenFeeds(const RunConfig& config) {
  const std::string& out = config.local.out;
  const std::string steps_path = JoinPath(out, "steps.jsonl");
  Feeds feeds;
  if (config.local.track.tensorboard) {
    BUTTRESS_ASSIGN_OR_RETURN(auto file, EventFile::Create(JoinPath(out, "tensorboard")));
    feeds.push_back(std::make_unique<TrackerFeed>(std::move(file), steps_path));
  }
  if (!config.local.track.mlflow.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(auto tracker, MlflowTracker::Create(MlflowOptionsOf(config)));
    feeds.push_back(std::make_unique<TrackerFeed>(std::move(tracker), steps_path));
  }
  if (feeds.empty()) {
    return InvalidArgument(
        "no tracker is named; pass --tensorboard or --mlflow URL, or set local.track");
  }
  return feeds;
}

// Whether the last step is behind a checkpoint. A ledger that is on another machine, or not there
// yet, does not say so.
bool Finished(const std::string& out) {
  const auto ledger = LedgerReader::Open(JoinPath(out, "ledger.db"));
  if (!ledger.ok()) return false;
  const auto run = (*ledger)->Run();
  return run.ok() && run->has_value() && (*run)->finished;
}

// Whether no step and no evaluation is to come. A run that ends early has a trained model, and no
// last step.
bool Ended(const std::string& out) {
  return Finished(out) || std::filesystem::exists(JoinPath(out, "model"));
}

Status Follow(const std::string& out, Feeds& feeds) {
  std::int64_t finished_ms = 0;
  while (!ShutdownRequested()) {
    const std::int64_t now_ms = RealClock().MonotonicMs();
    if (Finished(out)) {
      if (finished_ms == 0) finished_ms = now_ms;
      if (ListPendingEvals(out).empty() || now_ms - finished_ms > kLastEvaluationsMs) break;
    }
    for (const auto& feed : feeds) BUTTRESS_RETURN_IF_ERROR(feed->FeedPatiently(now_ms));
    WaitForShutdown(kPoll);
  }
  return OkStatus();
}

Status Track(const TrackFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, ConfigOf(flags));
  BUTTRESS_ASSIGN_OR_RETURN(Feeds feeds, OpenFeeds(config));
  if (flags.follow) BUTTRESS_RETURN_IF_ERROR(Follow(config.local.out, feeds));
  const bool finished = Finished(config.local.out);
  std::vector<EvalRow> last;
  if (Ended(config.local.out)) {
    BUTTRESS_ASSIGN_OR_RETURN(last, LastEvaluations(config.local.out));
  }
  for (const auto& feed : feeds) {
    BUTTRESS_RETURN_IF_ERROR(feed->Feed());
    BUTTRESS_RETURN_IF_ERROR(feed->AddEvaluations(last));
    if (finished || flags.follow)
      BUTTRESS_RETURN_IF_ERROR(feed->End(finished ? RunEnd::kFinished : RunEnd::kInterrupted));
    fmt::print("{}\n", feed->Place());
  }
  return OkStatus();
}

}  // namespace

std::function<Status()> AddTrack(CLI::App& app) {
  const auto flags = std::make_shared<TrackFlags>();
  app.add_option("run,--config", flags->run, "YAML file of the run, or its folder")->required();
  app.add_option("--set", flags->overrides,
                 "override a setting, for example local.track.experiment=a")
      ->allow_extra_args(false);
  app.add_flag("--tensorboard", flags->tensorboard, "write event files to <out>/tensorboard");
  app.add_option("--mlflow", flags->mlflow, "send to the MLflow server of this URL");
  app.add_flag("--follow", flags->follow, "go on until the run has finished, or until Ctrl-C");
  return [flags] {
    InstallShutdownHandlers();
    SetLogRole("track");
    return Track(*flags);
  };
}

}  // namespace buttress
