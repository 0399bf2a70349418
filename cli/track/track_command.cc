// `buttress track RUN`: shows the curves of a run in TensorBoard, MLflow and Weights & Biases.
// track.py follows the files of the run and speaks with the trackers, by their own packages.
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/python/python_program.h"
#include "cli/run_client.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

struct TrackFlags {
  RunFlags run;
  bool tensorboard = false;
  std::string mlflow;
  std::string wandb;
  bool follow = false;
};

Result<RunConfig> TrackedConfig(const TrackFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(RunConfig config, ConfigOf(flags.run));
  TrackConfig& track = config.local.track;
  if (flags.tensorboard) track.tensorboard = true;
  if (!flags.mlflow.empty()) track.mlflow = flags.mlflow;
  if (!flags.wandb.empty()) track.wandb = flags.wandb;
  BUTTRESS_RETURN_IF_ERROR(ValidateRunConfig(config));
  if (!track.any())
    return InvalidArgument(
        "no tracker is named; pass --tensorboard, --mlflow URL or --wandb PROJECT, or set "
        "local.track");
  return config;
}

using Settings = std::map<std::string, std::string>;

void AddSettings(const YAML::Node& node, const std::string& path, Settings& settings) {
  if (!node.IsMap()) {
    YAML::Emitter text;
    text << YAML::Flow << node;
    settings[path] = node.IsScalar() ? node.Scalar() : text.c_str();
    return;
  }
  for (const auto& entry : node)
    AddSettings(entry.second, path + "." + entry.first.Scalar(), settings);
}

Status Track(const TrackFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, TrackedConfig(flags));
  Settings settings;
  AddSettings(YAML::Load(PrintRunConfig(config))["run"], "run", settings);
  const TrackConfig& track = config.local.track;
  const nlohmann::ordered_json spec{{"out", config.local.out}, {"name", config.run.name},
                                    {"settings", settings},    {"tensorboard", track.tensorboard},
                                    {"mlflow", track.mlflow},  {"experiment", track.experiment},
                                    {"wandb", track.wandb},    {"follow", flags.follow}};
  return ExecPython(track.interpreter, kTrackProgram, {JsonLine(spec)});
}

}  // namespace

std::function<Status()> AddTrack(CLI::App& app) {
  const auto flags = std::make_shared<TrackFlags>();
  flags->run.AddRun(app);
  app.add_flag("--tensorboard", flags->tensorboard, "write event files to <out>/tensorboard");
  app.add_option("--mlflow", flags->mlflow, "send to the MLflow server of this URL");
  app.add_option("--wandb", flags->wandb, "send to this project of Weights & Biases");
  app.add_flag("--follow", flags->follow, "continue until the run has finished, or until Ctrl-C");
  return [flags] { return Track(*flags); };
}

}  // namespace buttress
