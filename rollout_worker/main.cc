// The program rollout_worker: `rollout_worker --config run.yaml` works on a run, and
// `rollout_worker evaluator --config run.yaml` evaluates its weights; probe samples a run that has
// not begun; the commands eval, logprobs and generate run a model folder on a file, merge writes
// one, and serve answers the OpenAI API with one.
//
// Exit codes: 0 the run is finished or the worker was asked to stop, 2 wrong configuration, 3
// failure of the environment (a restart may help), 4 damaged data, 6 out of memory.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"
#include "lib/checks/program_checks.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/load.h"
#include "lib/policy/exception_status.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/embedded_engine.h"
#include "rollout_worker/episodes/episode_engine.h"
#include "rollout_worker/evaluation/evaluator.h"
#include "rollout_worker/evaluation/local_models.h"
#include "rollout_worker/evaluation/probe.h"
#include "rollout_worker/model_commands/model_flags.h"
#include "rollout_worker/run_worker.h"
#include "rollout_worker/serve/serve_command.h"
#include "rollout_worker/vllm/check_servers.h"
#include "rollout_worker/vllm/vllm_engine.h"

namespace buttress {
namespace {

constexpr ModelCommand kCommands[] = {
    {"eval", [](int argc, char** argv) { return RunEval(argc, argv, &kLocalModels); }},
    {"evaluator", RunEvaluatorCommand},
    {"probe", [](int argc, char** argv) { return RunProbeCommand(argc, argv, &kLocalModels); }},
    {"logprobs", RunLogprobs},
    {"generate", RunGenerate},
    {"merge", RunMerge},
    {"serve", RunServe}};

Result<std::unique_ptr<InferenceEngine>> MakePolicyEngine(const RunConfig& config,
                                                          const Tokenizer& tokenizer) {
  // The default version stands for the model that the configuration names.
  const PolicyVersion initial;
  const WorkerConfig& worker = config.local.worker;
  const InFlight in_flight = config.run.async.in_flight;
  if (worker.engine == EngineKind::kVllm)
    return MakeVllmEngine(config.run.model, worker.vllm, initial, &tokenizer, config.run.lora.on(),
                          in_flight, config.local.out);
  return MakeEmbeddedEngine(config.run.model, worker, initial, &tokenizer, in_flight);
}

Result<std::unique_ptr<InferenceEngine>> MakeEngine(const RunConfig& config,
                                                    const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<InferenceEngine> engine,
                            MakePolicyEngine(config, tokenizer));
  if (!config.run.env.on()) return engine;
  return MakeEpisodeEngine(config, tokenizer, std::move(engine));
}

// Joins a run. If another one takes its place, joins that as a new worker, with a new engine: no
// weight, lease or version of the old run is left.
Status Work(const RunConfig& config) {
  const auto tokenizer = Tokenizer::Load(config.run.model.path);
  BUTTRESS_RETURN_IF_ERROR(AsInput(tokenizer.status()).Annotate("run.model.path"));
  while (true) {
    const auto engine = MakeEngine(config, **tokenizer);
    if (ShutdownRequested()) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(AsInput(engine.status()));
    Status status = RunWorker(config, **tokenizer, **engine);
    if (status.code() != StatusCode::kAborted || ShutdownRequested()) return status;
    Log(kWarn, "another run answers; the worker starts anew", {{"why", status.message()}});
  }
}

// The engine itself is not made: it would load the weights.
Status Check(const RunConfig& config, const ConfigFlags& flags) {
  Findings findings = RunChecks(config, CheckScope::kWorker, {.workers = 1, .ranks = 0});
  if (config.run.env.on()) {
    const Status episodes = CheckEpisodes(config);
    episodes.ok() ? findings.Ok("run.env", "its conversations can be encoded")
                  : findings.Error("run.env", episodes.message());
  }
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine == EngineKind::kVllm) {
    CheckVllmServers(config, findings);
  } else if (worker.device == ComputeDevice::kCuda) {
    const auto library = OpenCudaLibrary("the worker", "local.worker.device: cpu");
    if (library.ok()) {
      findings.Ok("CUDA library", "opened, with its libraries");
    } else {
      findings.Error("CUDA library", library.status().message());
    }
  }
  return ReportProgramChecks(findings, flags, config);
}

int Report(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "rollout_worker: %s\n", status.ToString().c_str());
  return ExitCode(status);
}

int Run(int argc, char** argv) {
  for (const ModelCommand& command : kCommands) {
    if (argc > 1 && argv[1] == command.name) return command.run(argc - 1, argv + 1);
  }
  CLI::App app(
      "A rollout worker of a Buttress run: completes and scores prompts (evaluator: evaluates the "
      "weights of a run; probe, eval, logprobs, generate and serve: commands on a model)");
  ConfigFlags flags;
  flags.AddTo(app);
  CLI11_PARSE(app, argc, argv);
  InstallShutdownHandlers();
  SetLogRole("rollout_worker");
  bool done = false;
  const auto config = LoadByFlags(flags, &done);
  if (!config.ok() || done) return Report(config.status());
  return Report(flags.check ? Check(*config, flags) : Work(*config));
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    buttress::TightenUmask();
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    return buttress::Report(buttress::StatusOf(e, "lower the sizes that --help lists"));
  }
}
