#include "cli/python/python_program.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/run_client.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxOutputBytes = 256 << 20;
constexpr int kNoProgram = 127;  // of env

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  return environment;
}

struct ImportFlags {
  std::string path;
  std::string out;
  std::vector<std::string> overrides;
};

Status Write(const std::string& source, const ImportFlags& flags) {
  std::vector<std::string> arguments = {source, flags.path};
  arguments.insert(arguments.end(), flags.overrides.begin(), flags.overrides.end());
  BUTTRESS_ASSIGN_OR_RETURN(const std::string yaml, RunPython(kImportProgram, arguments));
  const Status valid = ParseRunConfig(yaml, "the result", {}).status();
  if (!valid.ok()) fmt::print(stderr, "to be fixed before it runs:\n{}\n", valid.message());
  if (flags.out.empty()) {
    fmt::print("{}", yaml);
    return OkStatus();
  }
  return WriteFileAtomic(flags.out, yaml);
}

std::function<Status()> AddSource(CLI::App& app) {
  const auto flags = std::make_shared<ImportFlags>();
  app.add_option("file", flags->path, "its settings, YAML or JSON")->required();
  app.add_option("overrides", flags->overrides,
                 "KEY=VALUE, as on the command line of that trainer");
  app.add_option("--out", flags->out, "file to write instead of stdout");
  return [flags, &app] { return Write(app.get_name(), *flags); };
}

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

struct StudyFlags {
  std::string interpreter = "python3";
  std::vector<std::string> arguments;
};

Status Study(const StudyFlags& flags) {
  std::vector<std::string> arguments = {std::string(kStudyModules), SiblingProgram("")};
  arguments.insert(arguments.end(), flags.arguments.begin(), flags.arguments.end());
  return ExecPython(flags.interpreter, kModulesProgram, std::move(arguments));
}

}  // namespace

Result<std::string> RunPython(std::string_view program, std::vector<std::string> arguments) {
  const OwnedFd output(::memfd_create("output", MFD_CLOEXEC));
  if (output.get() < 0) return Unavailable(std::string("memfd_create: ") + std::strerror(errno));
  arguments.insert(arguments.begin(), {"/usr/bin/env", "python3", "-c", std::string(program)});
  BUTTRESS_ASSIGN_OR_RETURN(const pid_t pid,
                            Spawn({.argv = std::move(arguments),
                                   .environment = OwnEnvironment(),
                                   .fds = {STDIN_FILENO, output.get(), STDERR_FILENO}}));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string path = "/proc/self/fd/" + std::to_string(output.get());
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxOutputBytes));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram && text.empty())
    text = "this command needs python3, which is not found; install Python 3.8 or newer";
  return InvalidArgument(text.empty() ? "the Python program failed" : text);
}

Status ExecPython(const std::string& interpreter, std::string_view program,
                  std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {interpreter, "-c", std::string(program)});
  return InvalidArgument(
      fmt::format("cannot run {}: {}; install Python 3.8 or newer, or name one that is there",
                  interpreter, ReplaceProcess(arguments)));
}

std::function<Status()> AddImport(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& verl_app = *app.add_subcommand("verl", "a configuration of verl's main_ppo");
  CLI::App& trl_app = *app.add_subcommand("trl", "the arguments of a GRPOConfig");
  return [&verl_app, verl = AddSource(verl_app), trl = AddSource(trl_app)] {
    return verl_app.parsed() ? verl() : trl();
  };
}

std::function<Status()> AddTrack(CLI::App& app) {
  const auto flags = std::make_shared<TrackFlags>();
  flags->run.AddRun(app);
  app.add_flag("--tensorboard", flags->tensorboard, "write event files to <out>/tensorboard");
  app.add_option("--mlflow", flags->mlflow, "send to the MLflow server of this URL");
  app.add_option("--wandb", flags->wandb, "send to this project of Weights & Biases");
  app.add_flag("--follow", flags->follow, "continue until the run has finished, or until Ctrl-C");
  return [flags] { return Track(*flags); };
}

std::function<Status()> AddStudy(CLI::App& app) {
  const auto flags = std::make_shared<StudyFlags>();
  app.set_help_flag();  // the Python program answers --help
  app.prefix_command();
  app.add_option("--python", flags->interpreter, "Python with numpy, scipy and PyYAML");
  return [&app, flags] {
    flags->arguments = app.remaining();
    return Study(*flags);
  };
}

}  // namespace buttress
