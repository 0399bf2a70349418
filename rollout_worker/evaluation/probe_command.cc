#include <CLI/CLI.hpp>
#include <cstdio>

#include "lib/config/load.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/evaluation/probe.h"
#include "rollout_worker/evaluation/probe_report.h"
#include "rollout_worker/evaluation/server_flags.h"

namespace buttress {
namespace {

struct ProbeFlags {
  std::string config;
  std::vector<std::string> overrides;
  ProbeOptions options;
  ServerFlags server;
  CLI::Option* seed = nullptr;
  bool json = false;

  void AddTo(CLI::App& app) {
    AddConfigFile(app, config)->required();
    app.add_option("--set", overrides, "KEY=VALUE, overrides the run file")
        ->allow_extra_args(false);
    app.add_option("--prompts", options.prompts, "prompts, drawn at random from all sources")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000));
    app.add_option("--group-size", options.completions, "completions of each")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{2}, kMaxVotes));
    server.AddTo(app);
    app.add_option("--model", server.server.model,
                   "name that the server has for the model of run.model.path, whose tokenizer is "
                   "used; default: its only one");
    seed = app.add_option("--seed", options.seed, "seed of the sample; default: run.seed");
    app.add_option("--results", options.results,
                   "append the verdicts of each prompt to this file as it ends; the same command "
                   "continues where it was stopped");
    app.add_option("--reference", options.reference,
                   "folder of a model that the start model was made from: how far it has left it");
    app.add_flag("--json", json, "print the report as one JSON object");
  }
};

Status ProbeByFlags(ProbeFlags& flags, const LocalModels* models) {
  ProbeOptions& options = flags.options;
  BUTTRESS_ASSIGN_OR_RETURN(options.config, LoadRunConfig(flags.config, flags.overrides));
  if (flags.seed->empty()) options.seed = options.config.run.seed;
  BUTTRESS_ASSIGN_OR_RETURN(options.server, flags.server.Options());
  if (options.server.url.empty() && !options.server.model.empty())
    return InvalidArgument("--model is of a server; add --server");
  if (!options.server.url.empty() && !options.reference.empty())
    return InvalidArgument("--reference reads tokens, which a server does not give; leave one out");
  if (options.config.run.env.on() && !options.reference.empty())
    return InvalidArgument(
        "--reference reads completions, and run.env makes episodes; leave it out, or add --set "
        "run.env.kind=single to probe the first answers");
  BUTTRESS_ASSIGN_OR_RETURN(const ProbeFacts facts, RunProbe(options, models));
  const ProbeReport report = ReportOf(options.config, facts);
  const auto print = flags.json ? ProbeJson : ProbeText;
  std::fputs(print(options.config, facts, report).c_str(), stdout);
  std::fflush(stdout);
  return report.verdict == ProbeVerdict::kCannotLearn ? NothingToLearn(report.conclusion)
                                                      : OkStatus();
}

}  // namespace

int RunProbeCommand(int argc, char** argv, const LocalModels* models) {
  CLI::App app("What a run can learn, from a sample of its prompts", "probe");
  ProbeFlags flags;
  flags.AddTo(app);
  return RunCommand(app, argc, argv,
                    [&] { return flags.server.Tidy(ProbeByFlags(flags, models), "probe"); });
}

}  // namespace buttress
