// The measurements of a step that its batch decides before any token is run.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "lib/rl/collapse/sources.h"

namespace buttress {

// One component of the rewards of a step: a verifier or a reward function of a weighted sum.
struct ComponentMeasurements {
  std::string name;
  double raw_reward = 0;  // sum before weighting
  double scorable = 0;    // completions that are in the sum

  double reward_mean() const { return raw_reward / scorable; }
};

// MeasurementTable() (lib/measure/measurements.h) documents each field. NaN means "not measured".
struct BatchMeasurements {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  // NaN for nothing.
  static double Ratio(double part, double whole) { return whole > 0 ? part / whole : kNotMeasured; }

  double raw_reward_mean = kNotMeasured, raw_reward_std = kNotMeasured;
  double shaped_reward_mean = 0, accuracy = 0;
  double acr = 0, acr_all_correct = 0, acr_all_wrong = 0, acr_other = 0;
  double acr_effective = 0, acr_expected = 0, acr_expected_high = 0, acr_excess = 0;
  double acr_dataset = kNotMeasured;
  double near_collapse = 0, truncated_share = 0, length_mean = 0;
  double groups = 0, unscorable_groups = 0, groups_replaced = 0, groups_masked = 0;
  double groups_informative = 0, completions = 0, unscorable = 0;
  double drawn_tokens = 0, drawn_raw_reward_mean = kNotMeasured, drawn_per_kept = kNotMeasured;
  double draw_factor = kNotMeasured, expected_mixed = kNotMeasured, plan_mixed = kNotMeasured;
  double kept_groups = 0, kept_tokens = 0, kept_raw_reward_mean = kNotMeasured,
         kept_acr = kNotMeasured;
  double tokens = 0, zero_advantage_share = 0, overlong_filtered = 0, generated_tokens = 0;
  double groups_trained = 0, virtual_groups = 0, virtual_weight = 0;
  double gate_rate = kNotMeasured, gate_threshold = kNotMeasured, gate_open = kNotMeasured;
  double age_mean = 0, age_max = 0;
  double turns_mean = kNotMeasured, tool_calls_mean = kNotMeasured;
  double failed_calls_share = kNotMeasured, repeated_answers_share = kNotMeasured;
  double ends_done = kNotMeasured, ends_turns = kNotMeasured, ends_tokens = kNotMeasured;
  double ends_tools = kNotMeasured, ends_time = kNotMeasured, ends_failed = kNotMeasured;

  std::vector<SourceMeasurements> sources;        // in the order of the names
  std::vector<ComponentMeasurements> components;  // in the order of their sums; none without a sum
};

}  // namespace buttress
