// Reads a RunConfig from a YAML file and --set overrides. Reading is strict, and one message lists
// every error.
#pragma once

#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace buttress {

// Reads `path`, applies `overrides` ("run.optim.lr=1e-5") to the YAML tree, binds it and validates
// it. A setting has its default, unless the file has it, unless an override has it. Paths become
// absolute: a relative one of the file begins at the file's folder, one of an override at the
// current folder. All errors are in one kInvalidArgument message, a line each:
//   b.yaml:4: run.optim.warmup_step: unknown key; did you mean 'warmup_steps'? Choose one of: ...
Result<RunConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides);

// LoadRunConfig for text, whose paths stay as they are; error messages call it `name`.
Result<RunConfig> ParseRunConfig(const std::string& text, const std::string& name,
                                 const std::vector<std::string>& overrides);

// Checks the ranges of settings and the rules over several of them; one message lists every broken
// rule.
Status ValidateRunConfig(const RunConfig& config);

// ValidateRunConfig for run.algorithm alone.
Status ValidateAlgorithmConfig(const AlgorithmConfig& algorithm);

// ValidateRunConfig for run.reward alone.
Status ValidateRewardConfig(const RewardConfig& reward);

// The defaults with `overrides` ("run.algorithm.eps=1e-4"), for a command that computes advantages
// without a run. kInvalidArgument for a setting outside run.algorithm, which such a command does
// not read.
Result<AlgorithmConfig> ParseAlgorithm(const std::vector<std::string>& overrides);

// ParseAlgorithm for run.reward, for a command that scores without a run.
Result<RewardConfig> ParseReward(const std::vector<std::string>& overrides);

// YAML that binds to the same configuration again. Where run.epochs gives the length run.steps is
// 0, also if it was computed since (StepsOf of sources.h), so that hashes do not depend on it.
std::string PrintRunConfig(const RunConfig& config);

// The configuration with file names instead of paths: what does not depend on where a run folder
// or a mount lies.
RunConfig WithFileNames(const RunConfig& config);

// SHA-256 (hex) of the printed `run` half. Of a path it covers the name: processes on several
// machines may have the same files in other folders. Datasets are identified by their content
// (ledger), weights by the digests of versions and checkpoints.
std::string RunConfigHash(const RunConfig& config);

// Adds the option that every program and command has for its configuration: FILE or --config FILE.
CLI::Option* AddConfigFile(CLI::App& app, std::string& path);

// The command line of every program: FILE or --config FILE, --set KEY=VALUE ..., --print-config,
// --check, --json, --describe-config [WORDS].
struct ConfigFlags {
  std::string path;
  std::vector<std::string> overrides;
  bool print = false;
  bool check = false;  // the program checks its part of the run and starts nothing
  bool json = false;   // --check prints JSON
  bool describe = false;
  std::string described;  // the words of --describe-config; empty: every setting

  void AddTo(CLI::App& app);
};

// Loads the configuration that the flags name. If a flag asks for output of it only
// (--print-config, --describe-config), prints it and sets `*done`.
Result<RunConfig> LoadByFlags(const ConfigFlags& flags, bool* done);

}  // namespace buttress
