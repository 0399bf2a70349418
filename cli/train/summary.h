// The results of a finished run: summary.json, and the closing text of `buttress launch`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/learned.h"

namespace buttress {

// "held-out accuracy after step 40: 62.7 % (59.7 to 65.7); 300 completions of 300 prompts, 2 %
// cut", with the interval where each prompt has one completion.
std::string EvalLine(const EvalRow& row);

// What `buttress launch` measured of the run.
struct RunSummary {
  std::optional<Accuracy> before;
  std::optional<Accuracy> after;
  double wall_seconds = 0;
  int restarts = 0;
  std::map<std::string, std::int64_t> peak_rss_bytes;
  Learned learned;
};

// Judges whether the run in the folder `out` learned, by its steps and the accuracies of `summary`.
// Errors as ReadSteps.
Result<Learned> ReadLearned(const std::string& out, const RunSummary& summary);

// Combines `summary` with the ledger and steps.jsonl, writes <out>/summary.json, and returns the
// closing text. REQUIRES: every process of the run has ended. kDataLoss if the ledger contradicts
// itself.
Result<std::string> WriteSummary(const RunConfig& config, const RunSummary& summary);

}  // namespace buttress
