// What `buttress compare` and `launch --seeds` find out about several runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/explain/post_mortem.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/learned.h"
#include "lib/measure/measurements.h"

namespace buttress {

// A run, which may be at work.
struct ComparedRun {
  std::string label;  // the end of its path that the other runs do not share
  std::string folder;
  RunConfig config;
  std::vector<StepMeasurements> steps;
  std::optional<Accuracy> before, after;  // on the held-out prompts
  Learned learned;
  Report report;              // causes and ACR
  bool finished = false;      // it has a summary
  double tokens = 0;          // generated, of all drawn groups
  double trained_tokens = 0;  // that were in the loss
  double seconds = 0;         // of the learner, over the steps
};

// The values of a key of `run` in which the runs differ, in their order.
struct DifferingSetting {
  std::string key;
  std::vector<std::string> values;
};

// A mean over runs with its 95 % interval by Student's t; the interval is NaN for one run.
struct RunsMean {
  double mean = 0;
  double low = 0;
  double high = 0;
  std::size_t runs = 0;
};

// What is averaged over seeds and compared between the settings.
struct Endpoint {
  std::string_view name;  // in JSON
  std::string_view label;
  bool percent;  // people read 100 times the number
  // NaN where the run has not measured it.
  double (*of)(const ComparedRun&);
};

// "raw_reward_last", "accuracy_last" (of the last tenth of the steps), "held_out_after",
// "held_out_difference" (after minus before), "acr".
std::span<const Endpoint> Endpoints();

// Runs that differ in their seed alone, at least two.
struct SeedGroup {
  std::string label;                // the common beginning of their folders
  std::vector<std::size_t> runs;    // by index
  std::vector<RunsMean> endpoints;  // as Endpoints()
};

// Held-out prompts of two runs after training.
struct PairedHeldOut {
  Change change;                // from the first run to the second
  std::int64_t only_first = 0;  // prompts that the first run alone gets right
  std::int64_t only_second = 0;
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<DifferingSetting> settings;
  std::vector<SeedGroup> seeds;
  // Of exactly two groups: the second minus the first, by Welch's interval; as Endpoints().
  std::vector<RunsMean> seed_differences;
  std::optional<PairedHeldOut> held_out;  // of exactly two runs with the same prompts
  std::string why_not_paired;             // where it is missing for two runs
};

// Reads the runs in the folders. kInvalidArgument for fewer than two, for one that is named twice
// or for a folder without a run.
Result<Comparison> CompareRuns(const std::vector<std::string>& folders);

// Student's interval over the values that are finite. Pure.
RunsMean MeanOverRuns(std::span<const double> values);

// Welch's interval of the mean of `second` minus that of `first`, over finite values. Pure.
RunsMean DifferenceOfRuns(std::span<const double> first, std::span<const double> second);

// "56.0 % (50.1 to 61.8)", "+0.031 (-0.002 to +0.064)" with `sign`, "-" where there is none.
std::string EndpointText(const Endpoint& endpoint, const RunsMean& mean, bool sign);

// "too easy 120, too hard 80": groups without a signal by cause, the most first; "none".
std::string CausesText(const Report& report);

// "the second is better: +4.0 % (+0.3 to +7.8); ...": held-out prompts of two runs; empty for more.
std::string HeldOutText(const Comparison& comparison);

// A table of at most 120 columns, the settings that differ and what follows, for a terminal.
std::string ComparisonText(const Comparison& comparison);

// {"runs": [...], "settings": [{"key", "values"}], "held_out": {...} or null, "seeds": [...],
// "seed_differences": {...}} (docs/comparing_runs.md).
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// A page without external addresses.
std::string ComparisonHtml(const Comparison& comparison);

}  // namespace buttress
