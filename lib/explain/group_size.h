// What another group size would give, by the difficulty of the sources: the rate of collapse, and
// the signal of the gradient for the tokens that it costs.
//
// Of a group of n completions of which k are right, GRPO's advantages are sqrt((n - k) / k) and
// -sqrt(k / (n - k)). The group adds sqrt(k (n - k)) / n to the step along the difference of the
// scores of right and wrong completions, and 1 / n to its variance if it is mixed, where scores
// have equal norms. At a fixed number of tokens, n per group, the ratio of signal to noise is then
//   E[sqrt(k (n - k)) / n]^2 / P(mixed),
// with both means over prompts and samples. It is the same for all scales of the advantage, so
// neither a larger learning rate nor a larger group is better by definition.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/difficulty.h"

namespace buttress {

// A source, and its share of the recent groups.
struct SourceDifficulty {
  Difficulty difficulty;
  double share = 0;
};

struct SizeRemedy {
  std::int64_t size = 1;  // completions per prompt
  double expected_acr = 0;
  double signal_per_token = 0;  // the ratio above, by that of the present size
};

// The same per source, under the present size and the other ones.
using SourceSizes = std::map<std::string, std::vector<SizeRemedy>>;

// The ratio of signal to noise at group size `n`, over sources weighed by their shares; 0 without
// a signal. REQUIRES: n >= 2. Pure.
double SignalPerToken(const std::vector<SourceDifficulty>& sources, std::int64_t n);

// The ratio of signal to noise of an estimator whose gates are open on groups of `n`, by that of
// GRPO, over sources weighed by their shares: E[w(p) p (1 - p)]^2 / E[mean square of advantages],
// where GRPO has the ratio above. Nullopt for estimators over whole batches, and without sources or
// a signal. REQUIRES: n >= 2. Pure.
std::optional<double> RelativeSignal(const std::vector<SourceDifficulty>& sources, std::int64_t n,
                                     const AlgorithmConfig& options);

// Half of `size` (where that is 2 or more), `size`, twice and four times. Empty for sizes below 2
// and without sources. Pure.
std::vector<SizeRemedy> CompareSizes(const std::vector<SourceDifficulty>& sources,
                                     std::int64_t size);

// Advises a size: the one with the greatest signal per token if that gains a fifth or more over
// `size`, else none. "" if there is nothing to compare. Pure.
std::string AdviseSize(const std::vector<SizeRemedy>& sizes, std::int64_t size);

}  // namespace buttress
