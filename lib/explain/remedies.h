// Computes what other treatments of collapse would have given for the same groups. The advantages
// come from the learner's own code (lib/rl), step after step, so that gates see the rates and keep
// the thresholds that they would have in a run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/explain/facts.h"
#include "lib/explain/group_size.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {

// One estimator over all groups of a run.
struct EstimatorRemedy {
  std::string name;  // for example "avspo, mode ladder"
  AlgorithmConfig options;
  GateState gate;
  std::int64_t with_advantage = 0;            // groups with a nonzero advantage
  std::int64_t collapsed_with_advantage = 0;  // constant groups with a nonzero advantage
  std::int64_t virtual_groups = 0;
  double sum_absolute = 0;  // sum of |advantage| over all completions
  // Over all-correct and all-wrong groups: their number, and the sum of their mean advantages,
  // negated for all-wrong ones. Its sign is that of the gradient that they add in expectation.
  std::int64_t constant = 0;
  double sum_push = 0;
  // For the most frequent group size, the weights of MomentsOf at kWeightRates, and RelativeSignal
  // over the sources of late; nullopt for estimators over whole batches.
  std::array<std::optional<double>, 3> weights;
  std::optional<double> signal_per_token;
  std::string setting;  // what to set for it

  // The mean advantage in the direction of the outcome; exactly 0 if only rounding is left.
  double push() const;

  // |advantage| over `completions`, the completions of the report.
  double mean_absolute(std::int64_t completions) const {
    return completions == 0 ? 0.0 : sum_absolute / static_cast<double>(completions);
  }
};

inline constexpr double kWeightRates[] = {0.1, 0.5, 0.9};

// Skipping a prompt whose last group was constant (GRESO, arXiv 2506.02177, without its probing).
struct SkipRemedy {
  std::int64_t visits = 0;   // groups of prompts seen before
  std::int64_t skipped = 0;  // visits after a constant group
  std::int64_t rightly = 0;  // skipped visits that were constant again
};

struct RemedyReport {
  std::int64_t groups = 0;
  std::int64_t completions = 0;
  std::vector<EstimatorRemedy> estimators;  // grpo, then the others by signal_per_token
  SkipRemedy skip;
  double draws_for_full_batch = 1;  // prompts drawn per informative group with dynamic sampling
  std::int64_t size = 1;            // completions per prompt, the most frequent
  // Over all sources, and by source if there are several; none where no completion has a verdict.
  std::vector<SizeRemedy> sizes;
  SourceSizes source_sizes;
};

class Remedies {
 public:
  Remedies();

  // Adds the groups of a step, their histories before the step, and whether the last group of each
  // prompt was constant (1), not constant (0) or absent (-1).
  Status Add(std::int64_t step, std::span<const GroupFacts> groups,
             std::span<const PromptHistory> history, std::span<const int> last_constant);

  // Returns the report. `size` is the most frequent group size, `sources` the difficulty of each
  // source of late.
  RemedyReport Finish(std::int64_t size,
                      const std::map<std::string, SourceDifficulty>& sources) const;

 private:
  RemedyReport report_;
  CollapseCounts cumulative_;
  std::optional<double> acr_ema_;  // as the coordinator computes it
  SourceWindow recent_;            // of the groups of a run, as the coordinator keeps it
};

}  // namespace buttress
