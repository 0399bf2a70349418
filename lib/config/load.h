// From a YAML file and --set overrides to a checked RunConfig; strict, with all errors at once.
#pragma once

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace CLI {
class App;
}

namespace buttress {

// Reads `path`, applies `overrides` ("run.optim.lr=1e-5") to the YAML tree, binds it, validates it.
// Order: defaults < file < overrides. Errors, all of them in one kInvalidArgument message, a line
// each:
//   b.yaml:4: unknown key 'run.optim.warmup_step'; did you mean 'warmup_steps'? Known here: lr, ...
Result<RunConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides);

// The same from text; `name` stands in error messages.
Result<RunConfig> ParseRunConfig(const std::string& text, const std::string& name,
                                 const std::vector<std::string>& overrides);

// Rules over several fields, and ranges; all broken ones in one message.
Status ValidateRunConfig(const RunConfig& config);

// The same for run.algorithm alone.
Status ValidateAlgorithmConfig(const AlgorithmConfig& algorithm);

// The same for run.reward alone.
Status ValidateRewardConfig(const RewardConfig& reward);

// Defaults with `overrides` ("run.algorithm.eps=1e-4"), for a command that computes advantages
// without a run. kInvalidArgument for a setting outside run.algorithm, which such a command would
// not read.
Result<AlgorithmConfig> ParseAlgorithm(const std::vector<std::string>& overrides);

// The same for run.reward, for a command that scores without a run.
Result<RewardConfig> ParseReward(const std::vector<std::string>& overrides);

// YAML that binds to the same config again.
std::string PrintRunConfig(const RunConfig& config);

// "run.optim.lr  (1e-06)  peak learning rate of AdamW", one line a setting.
std::string DescribeRunConfig();

// SHA-256 (hex) of the printed `run` half.
std::string RunConfigHash(const RunConfig& config);

// What every program's command line has: --config FILE, --set KEY=VALUE ..., --print-config,
// --check, --describe-config.
struct ConfigFlags {
  std::string path;
  std::vector<std::string> overrides;
  bool print = false;
  bool check = false;
  bool describe = false;

  void AddTo(CLI::App& app);
};

// Loads by the flags. When one of them asks only to look (--print-config, --check,
// --describe-config), prints that and sets `*done`.
Result<RunConfig> LoadByFlags(const ConfigFlags& flags, bool* done);

}  // namespace buttress
