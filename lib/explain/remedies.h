// What other treatments of collapse would have made of the same groups: advantages by the learner's
// own code (lib/rl), batch after batch, so that gates see the rates and remember the thresholds
// that they would have in a run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/explain/beta_fit.h"
#include "lib/explain/facts.h"
#include "lib/rl/advantage.h"

namespace buttress {

// One estimator over all groups of a run.
struct EstimatorRemedy {
  std::string name;  // "avspo, mode ladder"
  AlgorithmConfig options;
  GateState gate;
  std::int64_t with_advantage = 0;            // groups with an advantage that is not 0
  std::int64_t collapsed_with_advantage = 0;  // of these, constant ones
  std::int64_t virtual_groups = 0;
  double sum_absolute = 0;  // of advantages, over all completions
};

// Skipping a prompt whose last group was constant (GRESO, arXiv 2506.02177, without its probing).
struct SkipRemedy {
  std::int64_t visits = 0;   // groups of prompts seen before
  std::int64_t skipped = 0;  // after a constant group
  std::int64_t rightly = 0;  // of these, constant again
};

// What a group size would give.
struct SizeRemedy {
  std::int64_t times = 1;  // as many completions for each prompt
  double expected_acr = 0;
};

struct RemedyReport {
  std::int64_t groups = 0;
  std::int64_t completions = 0;
  std::vector<EstimatorRemedy> estimators;
  SkipRemedy skip;
  double draws_for_full_batch =
      1;  // prompts drawn for each informative group: dynamic sampling's cost
  std::vector<SizeRemedy> sizes;
};

class Remedies {
 public:
  Remedies();

  // One step's groups, their histories before it, and whether the prompt's last group was constant
  // (-1: never seen).
  Status Add(std::int64_t step, std::span<const GroupFacts> groups,
             std::span<const PromptHistory> history, std::span<const int> last_constant);

  // `fit` over the groups, `size` the common group size.
  RemedyReport Finish(const BetaFit& fit, std::int64_t size) const;

 private:
  RemedyReport report_;
  CollapseCounts cumulative_;
  std::optional<double> acr_ema_;  // as the coordinator keeps it
};

}  // namespace buttress
