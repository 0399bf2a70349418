// Reads <out>/steps.jsonl, which the learner writes: one JSON object a step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// What the live line, the curves and the summary need of a step; the names are those of the file.
struct StepRecord {
  std::int64_t step = 0;
  double time_unix = 0;
  double reward_mean = 0;
  double acr = 0;
  double acr_all_correct = 0;
  double acr_all_wrong = 0;
  double acr_other = 0;
  double entropy = 0;
  double kl = 0;
  double tokens_per_second = 0;
  double age_mean = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t groups = 0;           // drawn for the step
  std::int64_t groups_replaced = 0;  // of those, for their zero variance
  std::int64_t groups_masked =
      // of the step's own, because no more could be replaced, or by run.batch.zero_variance: mask
      0;
};

// kDataLoss names the field that is missing or is no number.
Result<StepRecord> ParseStep(std::string_view line);

// All whole lines of the file; an unfinished last line is left out. No file: no steps.
Result<std::vector<StepRecord>> ReadSteps(const std::string& path);

// "step 12/400 3%  reward 0.41  acr 0.44 (...)  ...  left 1m32s"; where groups were replaced or
// masked, also "drawn 61 (29 replaced, 0 masked)". `seconds_left` below 0: not known yet.
std::string StepLine(const StepRecord& record, std::int64_t total_steps, double seconds_left);

// Seconds to the last step at the pace of the newest records; -1 with fewer than two.
double SecondsLeft(const std::vector<StepRecord>& records, std::int64_t total_steps);

}  // namespace buttress
