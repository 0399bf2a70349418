// The `buttress` program: a table of commands. It does not link LibTorch, so it starts at once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/fleet/fleet.h"
#include "cli/process.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/config/choice.h"
#include "lib/measure/measurements.h"
#include "lib/rl/loss/loss_table.h"

namespace buttress {
namespace {

// The programs that link LibTorch have these commands; this process becomes one of them.
std::function<Status()> AddForwarded(CLI::App& app, const std::string& program) {
  app.set_help_flag();  // the other program answers --help
  app.prefix_command();
  return [&app, program] {
    std::vector<std::string> argv = {SiblingProgram(program), app.get_name()};
    for (std::string& argument : app.remaining()) argv.push_back(std::move(argument));
    return BecomeProgram(argv);
  };
}

std::function<Status()> AddLearner(CLI::App& app) { return AddForwarded(app, "learner"); }

std::function<Status()> AddWorker(CLI::App& app) { return AddForwarded(app, "rollout_worker"); }

std::function<Status()> AddList(CLI::App& app, std::string (*text)(), std::string (*markdown)()) {
  const auto chosen = std::make_shared<bool>(false);
  app.add_flag("--markdown", *chosen, "print the tables of docs/");
  return [chosen, text, markdown] {
    std::fputs((*chosen ? markdown() : text()).c_str(), stdout);
    return OkStatus();
  };
}

std::function<Status()> AddLosses(CLI::App& app) { return AddList(app, LossList, LossTables); }

std::function<Status()> AddMetrics(CLI::App& app) {
  return AddList(app, MeasurementsText, MeasurementsMarkdown);
}

constexpr const char* kTrain = "Train";
constexpr const char* kPrepare = "Prepare data, rewards and models";
constexpr const char* kModels = "Use a model folder";
constexpr const char* kUnderstand = "Understand a run";
constexpr const char* kMachines = "Take machines in and out";
constexpr const char* kKeep = "Keep a run";
constexpr const char* kReference = "Look up what there is";

constexpr CommandEntry kCommands[] = {
    {"launch", "start coordinator, workers and learner, here or over ssh, and train to the end",
     AddLaunch, kTrain},
    {"doctor", "check a run without starting it, and show what its rows become", AddDoctor,
     kPrepare},
    {"probe", "measure what a run can learn before it starts, from a sample of its prompts",
     AddProbe, kPrepare},
    {"on-host", "what `launch --hosts` calls to run a program on another machine", AddOnHost, ""},
    {"vllm-server", "start a vLLM server of a run, as `launch` does", AddVllmServer, kTrain},
    {"status", "show the progress of a run", AddStatus, kTrain},
    {"samples", "show what the policy wrote in the newest steps, with rewards", AddSamples,
     kUnderstand},
    {"page", "write the page of a run, running or finished, as one HTML file", AddPage,
     kUnderstand},
    {"compare", "compare the settings, curves, endpoints and costs of runs", AddCompare,
     kUnderstand},
    {"stop", "end a run after a checkpoint", AddStop, kTrain},
    {"max-age", "change how old groups may be when they are trained, in a run under way", AddMaxAge,
     kTrain},
    {"cordon", "give rollout workers no new leases", AddCordon, kMachines},
    {"uncordon", "take back cordon and drain", AddUncordon, kMachines},
    {"drain", "let rollout workers finish or hand back what they hold, and exit", AddDrain,
     kMachines},
    {"sft", "supervised fine-tuning on messages or prompts and responses", AddLearner, kModels},
    {"eval", "measure the accuracy of a model folder or a server on a file of prompts", AddEval,
     kModels},
    {"logprobs", "compute the log-probs of token sequences under a model folder", AddWorker,
     kModels},
    {"generate", "complete the prompts of a file with a model folder", AddWorker, kModels},
    {"serve", "answer the OpenAI API with a model folder", AddWorker, kModels},
    {"merge", "add the adapters of a PEFT folder to the weights of their model", AddWorker,
     kModels},
    {"tokenize", "print the token ids of texts or chat messages", AddTokenize, kModels},
    {"detokenize", "print the texts of token ids", AddDetokenize, kModels},
    {"task", "generate problems with verifiable answers, as JSONL", AddTask, kPrepare},
    {"new-model", "write a Hugging Face folder without weights: config and tokenizer", AddNewModel,
     kPrepare},
    {"verify", "score the responses of a JSONL file", AddVerify, kPrepare},
    {"audit-verifier",
     "run metamorphic checks of a verifier on a file and measure its error against labels",
     AddAuditVerifier, kPrepare},
    {"import", "write a configuration of verl or TRL as one of Buttress", AddImport, kPrepare},
    {"advantages", "compute the advantages of groups of rewards", AddAdvantages, kReference},
    {"losses", "list every policy loss with its paper and formula", AddLosses, kReference},
    {"metrics", "list every measurement of a training step", AddMetrics, kReference},
    {"explain", "report why groups gave no signal, from a run folder or a dump of verl or TRL",
     AddExplain, kUnderstand},
    {"replay", "compute the advantages of a run again, or sample the answers of its episodes again",
     AddReplay, kUnderstand},
    {"track", "show the curves of a run in TensorBoard, MLflow and W&B", AddTrack, kUnderstand},
    {"study", "test claims about settings: arms over tasks and seeds, and what they decide",
     AddStudy, kUnderstand},
    {"ledger", "audit, show or fix what the ledger of a run knows", AddLedger, kUnderstand},
    {"backup", "copy a run, which may be running, to a new folder", AddBackup, kKeep},
    {"restore", "make a run folder from a backup", AddRestore, kKeep},
};

bool IsCommand(std::string_view name) {
  return std::ranges::any_of(kCommands, [name](const auto& entry) { return name == entry.name; });
}

int Run(int argc, char** argv) {
  CLI::App app("Buttress: distributed RL training of language models");
  app.require_subcommand(1);
  app.set_version_flag("--version", "buttress " + ProgramVersion());
  std::function<Status()> run;
  for (const CommandEntry& command : kCommands) {
    CLI::App& sub = *app.add_subcommand(command.name, command.summary);
    sub.group(command.group);
    sub.callback([&run, action = command.add(sub)] { run = action; });
  }
  std::vector<std::string_view> names;
  for (const CommandEntry& command : kCommands) {
    if (*command.group != '\0') names.emplace_back(command.name);
  }
  if (argc > 1 && argv[1][0] != '-' && !IsCommand(argv[1])) {
    std::fprintf(stderr, "buttress: '%s' is no command%s\n", argv[1],
                 SuggestNames(argv[1], names).c_str());
    return ExitCode(InvalidArgument(""));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // --help also arrives here
    return app.exit(e) == 0 ? 0 : ExitCode(InvalidArgument(e.what()));
  }
  const Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "buttress: %s\n", status.message().c_str());
  return IsConditionHolds(status) ? 1 : CommandExitCode(status);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    buttress::TightenUmask();
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "buttress: %s\n", e.what());
    return buttress::ExitCode(buttress::Internal(e.what()));
  }
}
