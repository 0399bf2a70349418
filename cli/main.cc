// `buttress`: one command each for what a person does. Without LibTorch, so that it starts at once.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command.h"

namespace buttress {
namespace {

constexpr int kExitInterrupted = 130;

constexpr Command kCommands[] = {
    {"launch", "run coordinator, workers and learner on this machine until training is done",
     AddLaunch},
    {"status", "what a run is doing", AddStatus},
    {"sft", "cold start: cross-entropy on prompt and response pairs", AddSft},
    {"eval", "accuracy of a model folder on a file of prompts", AddEval},
    {"task", "write problems that verify themselves, as JSONL", AddTask},
    {"new-model", "write a Hugging Face folder without weights: config and tokenizer", AddNewModel},
    {"verify", "score a JSONL of responses", AddVerify},
    {"audit-verifier",
     "metamorphic checks of a verifier on a file's answers, and its noise against labels",
     AddAuditVerifier},
    {"advantages", "what an estimator does with groups of rewards", AddAdvantages},
    {"losses", "every policy loss: paper and formula", AddLosses},
    {"explain", "why groups gave no signal: a run of ours, or a dump of verl or TRL", AddExplain},
};

int Run(int argc, char** argv) {
  CLI::App app("Buttress: distributed RL training of language models");
  app.require_subcommand(1);
  std::function<Status()> run;
  for (const Command& command : kCommands) {
    CLI::App& sub = *app.add_subcommand(command.name, command.summary);
    sub.callback([&run, action = command.add(sub)] { run = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // --help comes this way too
    return app.exit(e) == 0 ? 0 : ExitCode(InvalidArgument(e.what()));
  }
  const Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "buttress: %s\n", status.message().c_str());
  return status.code() == StatusCode::kCancelled ? kExitInterrupted : ExitCode(status);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "buttress: %s\n", e.what());
    return buttress::ExitCode(buttress::Internal(e.what()));
  }
}
