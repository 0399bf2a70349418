// The measurements of each data source, in steps.jsonl, in the metrics and in the summary.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "lib/experience/collapse.h"
#include "lib/rl/collapse/source_names.h"

namespace buttress {

// The groups of one data source in a step. Sums, so that sources add up.
struct SourceMeasurements {
  std::string source;
  CollapseCounts collapse;    // of its groups drawn for the step
  double scorable = 0;        // completions of the batch
  double raw_reward = 0;      // sum over them
  double correct = 0;         // of them
  double judged = 0;          // of them: correct or wrong
  double virtual_groups = 0;  // groups with virtual samples
  // Of the gate of the estimator for this source; NaN where its groups read the gate of all groups.
  double gate_rate = std::numeric_limits<double>::quiet_NaN();
  double gate_threshold = std::numeric_limits<double>::quiet_NaN();
  double gate_open = std::numeric_limits<double>::quiet_NaN();

  // NaN without a group or a completion to take it over.
  double acr() const;

  double reward_mean() const { return raw_reward / scorable; }

  double accuracy() const { return correct / judged; }

  // Adds up the sums.
  void Add(const SourceMeasurements& other);
};

// Adds up the sources that have one reported name (source_names.h), in the order of the names. What
// has no name of its own has no gate either.
std::vector<SourceMeasurements> ReportedSources(const std::vector<SourceMeasurements>& sources,
                                                SourceNames& names);

}  // namespace buttress
