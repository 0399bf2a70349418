// What a probe says of a run: rates with intervals, the cost of the run, a conclusion and advice.
// All functions are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/rl/eval/group_rates.h"
#include "rollout_worker/evaluation/probe.h"

namespace buttress {

// A mean with its 95 % interval; NaN where it is not known.
struct MeanInterval {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double low = mean;
  double high = mean;
};

// A sum over the completions of a prompt, and what it is divided by.
struct PromptSum {
  double sum = 0;
  double weight = 0;
};

// The ratio of the sums with its normal interval over prompts, the linearised variance of a ratio
// of sums over clusters (Cochran, Sampling Techniques, 1977, equation 2.47). Nothing is known
// without weight, and no interval from one prompt.
MeanInterval RatioOf(std::span<const PromptSum> prompts);

// Whether a run can learn from groups of its size.
enum class ProbeVerdict : std::uint8_t { kCanLearn, kCannotLearn, kNoInformation };

// The rates of the prompts of one source.
struct SourceRates {
  std::int64_t prompts = 0;
  Estimate accuracy;
  Estimate mixed;  // groups of the run's size
};

struct ProbeReport {
  ProbeVerdict verdict = ProbeVerdict::kNoInformation;
  std::string conclusion;
  std::vector<std::string> advice;

  std::vector<GroupRate> sizes;  // 4 to 64 and the run's, rising
  GroupRate own;                 // of the run's group size
  Estimate mixed;                // 1 - its ACR: groups with a signal
  std::map<std::string, SourceRates> sources;

  Estimate never, always;  // prompts none, or all, of whose scored completions are right
  Estimate accuracy;
  std::map<std::int64_t, Estimate> pass;  // pass@k by k
  // Of prompts whose verifier reads answers; without prompts if there are none.
  Estimate answered;        // completions in which it found one
  MeanInterval distinct;    // different answers of a prompt
  MeanInterval wrong_mode;  // share of its most frequent wrong answer

  Estimate truncated, unscorable;  // completions
  MeanInterval tokens;             // of a completion
  std::int64_t median_tokens = 0, ninth_decile_tokens = 0;
  MeanInterval entropy;            // nats per token
  EpisodeTotals episodes;          // none where completions are no episodes
  MeanInterval turns, tool_calls;  // of an episode
  // Of the reference, on the sampled completions: nats per token. KL is of the sampling
  // distribution from that of the reference.
  MeanInterval reference_kl, reference_entropy;

  double resampled = 1;  // groups drawn for each that trains, where the run replaces constant ones
  double run_completions = 0, run_tokens = 0, run_seconds = 0;
};

// Below this share of mixed groups a run is said to be unable to learn, at the upper end of the
// interval. 200 prompts whose completions are all wrong have an upper end of 1.9 %.
inline constexpr double kLeastMixed = 0.02;

ProbeReport ReportOf(const RunConfig& config, const ProbeFacts& facts);

// The report as lines, or as one JSON object (docs/probe.md).
std::string ProbeText(const RunConfig& config, const ProbeFacts& facts, const ProbeReport& report);
std::string ProbeJson(const RunConfig& config, const ProbeFacts& facts, const ProbeReport& report);

}  // namespace buttress
