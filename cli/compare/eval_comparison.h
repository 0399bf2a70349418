// `buttress compare` of results of `buttress eval`: their rates on the same prompts, and the
// differences prompt by prompt.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/measure/eval_results.h"
#include "lib/measure/learned.h"

namespace buttress {

struct ComparedEval {
  std::string path;
  nlohmann::ordered_json settings;
  std::int64_t prompts = 0;      // that the file has
  EvalResult totals;             // of the prompts that all files have
  std::int64_t completions = 0;  // of a prompt
};

// A result against the first one.
struct RateDifference {
  Change change;                 // from the first to this one
  double p = 1;                  // PairedPValue
  std::int64_t only_first = 0;   // prompts on which the first is better
  std::int64_t only_second = 0;  // prompts on which this one is better
};

// A rate by result.
struct ComparedRate {
  std::string name;  // "accuracy", "pass" or "maj"
  std::int64_t k = 1;
  std::vector<Estimate> of;
  // Of the second result and those after it; nullopt without prompts that both have.
  std::vector<std::optional<RateDifference>> differences;

  // "accuracy", "pass@8".
  std::string Label() const;
};

struct EvalComparison {
  std::vector<ComparedEval> evals;
  std::vector<ComparedRate> rates;
  std::int64_t prompts = 0;  // that all files have
};

// Reads one file or more. The accuracy is over all completions of a prompt; pass@k and maj@k are
// for powers of two up to the fewest completions. kInvalidArgument for a file that is none of
// results, and for results on other prompts.
Result<EvalComparison> CompareEvals(const std::vector<std::string>& paths);

// Tables for a terminal.
std::string EvalComparisonText(const EvalComparison& comparison);

// {"results": [...], "prompts", "rates": [...]} (docs/comparing_runs.md).
nlohmann::ordered_json EvalComparisonJson(const EvalComparison& comparison);

// A page without external addresses: the plot of the rates over k, and the tables.
std::string EvalComparisonHtml(const EvalComparison& comparison);

}  // namespace buttress
