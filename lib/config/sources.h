// The datasets that a run draws its prompts from: run.data.prompts alone, or those of
// run.data.sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/run_config.h"

namespace buttress {

// A dataset with the settings that hold for it.
struct PromptDataset {
  std::string name;             // in run.data.sources; empty for run.data.prompts
  std::string section;          // of its settings: "run.data", or "run.data.sources.NAME"
  double weight = 1;            // of its draws
  DataConfig data;              // `prompts` names it; `sources` is empty
  std::int64_t max_tokens = 0;  // of its completions
  std::int64_t positions = 0;   // of the model, for prompt and completion; 0: not known
};

// Returns the datasets by name; one of them if there are no sources.
std::vector<PromptDataset> DatasetsOf(const RunSettings& run);

// Returns run.steps, or the steps that draw run.epochs times as many prompts as the datasets have
// rows, rounded up.
std::int64_t StepsOf(const RunSettings& run, std::uint64_t rows);

// Copies the verifiers of run.data.sources into run.reward.by_source, which everything that scores
// reads. Returns an error for each source that both name with different verifiers.
std::vector<std::string> MergeVerifiers(RunSettings& run);

}  // namespace buttress
