// `buttress advantages FILE`: the advantages that an estimator gives to the rewards of a file, by
// the learner's own code path.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/command.h"
#include "cli/reference/advantages_report.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

struct AdvantagesFlags {
  std::string path;
  std::string estimator;
  std::vector<std::string> overrides;
  std::uint64_t seed = 1;
  std::int64_t step = 1;
  bool json = false;
  bool markdown = false;
};

// Reads a file or a pipe, whose size is unknown in advance.
Result<std::string> Read(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path == "-" ? "/dev/stdin" : path);
  if (!file || std::filesystem::is_directory(path, ignored))
    return InvalidArgument("cannot read " + path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad())
    return InvalidArgument("cannot read " + path + " beyond byte " + std::to_string(text.size()));
  return text;
}

Status Run(const AdvantagesFlags& flags) {
  if (flags.estimator == "list") {
    std::fputs((flags.markdown ? EstimatorTables() : EstimatorList()).c_str(), stdout);
    return OkStatus();
  }
  if (flags.path.empty())
    return InvalidArgument("advantages: name a JSONL file of groups, or --estimator list");
  std::vector<std::string> overrides = flags.overrides;
  if (!flags.estimator.empty()) overrides.push_back("run.algorithm.advantage=" + flags.estimator);
  BUTTRESS_ASSIGN_OR_RETURN(const AlgorithmConfig options, ParseAlgorithm(overrides));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, Read(flags.path));
  BUTTRESS_ASSIGN_OR_RETURN(const GroupBatch batch, ParseGroups(text, flags.path));
  const EstimatorInfo& info = InfoOf(options.advantage);
  if (info.reads_lengths && !batch.has_lengths) {
    return InvalidArgument(flags.path + ": " + std::string(info.name()) +
                           " weighs completions by their tokens; give every group 'lengths'");
  }
  for (const std::string& field : batch.unread) {
    std::fprintf(stderr, "buttress: %s: field '%s' is not read\n", flags.path.c_str(),
                 field.c_str());
  }
  AdvantageInput input = batch.Input();
  input.key = AdvantageKey(flags.seed, flags.step);
  const Result<AdvantageOutput> out = ComputeAdvantages(input, options);
  if (!out.ok()) return out.status().Annotate(flags.path);
  std::fputs(
      (flags.json ? AdvantagesJson(batch, *out, options) : AdvantagesText(batch, *out, options))
          .c_str(),
      stdout);
  return OkStatus();
}

}  // namespace

std::function<Status()> AddAdvantages(CLI::App& app) {
  const auto flags = std::make_shared<AdvantagesFlags>();
  app.add_option(
      "file", flags->path,
      "JSONL of groups, one batch: {\"id\", \"rewards\": [...]} and, as an estimator "
      "needs them, \"lengths\", \"outcomes\", \"components\", \"history\"; - is standard "
      "input");
  app.add_option("--estimator", flags->estimator, "name of the estimator; 'list' prints all");
  app.add_option("--set", flags->overrides,
                 "a setting of the estimator: run.algorithm.avspo.mode=ladder (can be repeated)");
  app.add_option("--seed", flags->seed, "seed of the run, for estimators that draw random numbers")
      ->capture_default_str();
  app.add_option("--step", flags->step, "step of the run, for the same")->capture_default_str();
  app.add_flag("--json", flags->json, "one JSON object per group, and a summary object");
  app.add_flag("--markdown", flags->markdown,
               "with --estimator list: the tables of docs/estimators.md");
  return [flags] { return Run(*flags); };
}

}  // namespace buttress
