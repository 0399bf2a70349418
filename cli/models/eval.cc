// `buttress eval` and `buttress probe`: this process becomes `rollout_worker eval` or
// `rollout_worker probe`. With --vllm it starts a vLLM server before, for that command alone.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/process.h"
#include "cli/vllm/own_server.h"
#include "lib/config/choice.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

struct SamplingFlags {
  OwnServerFlags vllm;
  std::string model;
  std::string dtype;
  std::string config;
  std::vector<std::string> overrides;

  // The run file of a command line, which may be its first argument; empty: none.
  std::string RunFileOf(const std::vector<std::string>& rest) const {
    const bool first = !rest.empty() && !rest.front().starts_with('-');
    return config.empty() && first ? rest.front() : config;
  }
};

using Arguments = std::vector<std::string>;

void Append(const Arguments& more, Arguments& argv) {
  argv.insert(argv.end(), more.begin(), more.end());
}

// Becomes the command of rollout_worker, with the arguments of a run file and what was not declared
// here.
Status BecomeCommand(const SamplingFlags& flags, Arguments argv, const Arguments& rest) {
  argv.insert(argv.begin(), SiblingProgram("rollout_worker"));
  if (!flags.config.empty()) Append({"--config", flags.config}, argv);
  for (const std::string& setting : flags.overrides) Append({"--set", setting}, argv);
  Append(rest, argv);
  return BecomeProgram(argv);
}

// The dtype as `rollout_worker eval` decides it: --dtype, or that of the run file.
Result<std::string> DtypeOf(const SamplingFlags& flags, const Arguments& rest) {
  const std::string file = flags.RunFileOf(rest);
  if (!flags.dtype.empty() || file.empty()) return flags.dtype;
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(file, flags.overrides));
  return std::string(ChoiceName(config.run.model.dtype));
}

Status RunEval(const SamplingFlags& flags, const Arguments& rest) {
  Arguments argv = {"eval"};
  BUTTRESS_RETURN_IF_ERROR(flags.vllm.Check(rest, {"--tokenizer", "--adapter"}));
  if (flags.vllm.on()) {
    if (flags.model.empty())
      return InvalidArgument("--vllm serves a model folder; name it with --model");
    BUTTRESS_ASSIGN_OR_RETURN(const std::string dtype, DtypeOf(flags, rest));
    BUTTRESS_ASSIGN_OR_RETURN(const Arguments server,
                              StartOwnServer(flags.vllm, flags.model, dtype, "eval"));
    Append(server, argv);
    Append({"--tokenizer", flags.model}, argv);
  }
  if (!flags.model.empty()) Append({"--model", flags.model}, argv);
  if (!flags.dtype.empty()) Append({"--dtype", flags.dtype}, argv);
  return BecomeCommand(flags, std::move(argv), rest);
}

Status RunProbe(const SamplingFlags& flags, const Arguments& rest) {
  Arguments argv = {"probe"};
  BUTTRESS_RETURN_IF_ERROR(flags.vllm.Check(rest, {"--model", "--reference"}));
  if (flags.vllm.on()) {
    const std::string file = flags.RunFileOf(rest);
    if (file.empty())
      return InvalidArgument(
          "--vllm serves the model of a run file; name the file first, or with --config");
    BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(file, flags.overrides));
    const ModelPathConfig& model = config.run.model;
    BUTTRESS_ASSIGN_OR_RETURN(
        const Arguments server,
        StartOwnServer(flags.vllm, model.path, std::string(ChoiceName(model.dtype)), "probe"));
    Append(server, argv);
  }
  return BecomeCommand(flags, std::move(argv), rest);
}

std::shared_ptr<SamplingFlags> AddFlags(CLI::App& app) {
  auto flags = std::make_shared<SamplingFlags>();
  app.set_help_flag();  // the other program answers --help, these options included
  app.allow_extras();
  flags->vllm.AddTo(app);
  app.add_option("--config", flags->config);
  app.add_option("--set", flags->overrides)->allow_extra_args(false);
  return flags;
}

}  // namespace

std::function<Status()> AddEval(CLI::App& app) {
  const auto flags = AddFlags(app);
  app.add_option("--model", flags->model);
  app.add_option("--dtype", flags->dtype);
  return [&app, flags] { return RunEval(*flags, app.remaining()); };
}

std::function<Status()> AddProbe(CLI::App& app) {
  const auto flags = AddFlags(app);
  return [&app, flags] { return RunProbe(*flags, app.remaining()); };
}

}  // namespace buttress
