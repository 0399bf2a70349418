// Advantages relative to the group's own mean: grpo, dr_grpo, and the group statistics that other families build on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/rl/advantage.h"
#include "lib/rl/types.h"

namespace buttress {

enum class StdKind : std::uint8_t { kSample, kPopulation, kNone };

// algorithm.std. kInvalidArgument with the choices for an unknown name.
Result<StdKind> ParseStdKind(std::string_view name);

// Over the scorable values of one group, in double, two passes.
struct GroupStats {
  std::int64_t scorable = 0;
  double mean = 0;
  double range = 0;        // max - min
  double sum_squares = 0;  // of the differences from the mean

  // sum_squares / (scorable - 1), or / scorable. REQUIRES: scorable >= 2.
  double sample_variance() const { return sum_squares / static_cast<double>(scorable - 1); }
  double population_variance() const { return sum_squares / static_cast<double>(scorable); }

  // What advantages are divided by, without eps; 1 for kNone. REQUIRES: scorable >= 2.
  double Divisor(StdKind kind) const;
};

// `outcomes` as in ClassifyGroup. Pure.
GroupStats ComputeGroupStats(std::span<const double> values, std::span<const Outcome> outcomes);

// advantages[i] = (rewards[i] - mean) / (std + eps), or rewards[i] - mean for kNone; exactly 0 for unscorable rows, for a constant group
// (range test: rounding must not pass for variance, algorithms.md 1.6) and for fewer than two scorable rows. Pure.
void NormalizeGroup(std::span<const double> rewards, std::span<const Outcome> outcomes, StdKind kind, double eps,
                    std::span<double> advantages);

// GRPO (arXiv 2402.03300, section 4.1.2): options.std and options.eps.
Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

// Dr. GRPO (arXiv 2503.20783): reward minus mean.
Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out);

}  // namespace buttress
