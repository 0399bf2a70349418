// The collapse rate that groups of a size would have, from n completions of each of some prompts
// that were drawn at random. All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/experience/types.h"
#include "lib/rl/collapse/difficulty.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {

// The scored completions of a prompt that have one raw reward (EqualRewards).
struct RewardLevel {
  double reward = 0;
  std::int64_t correct = 0;
  std::int64_t wrong = 0;

  std::int64_t count() const { return correct + wrong; }
};

// The scored completions of a prompt, with rising rewards.
struct SampledPrompt {
  std::vector<RewardLevel> levels;

  Trials trials() const;

  // Whether reward and outcome say the same: equal rewards of the correct ones, and of the others.
  bool binary() const;
};

// Sorts the scorable completions; rewards and outcomes are [n].
SampledPrompt SampledPromptOf(std::span<const double> rewards, std::span<const Outcome> outcomes);

// The probability that `size` completions drawn without replacement have equal rewards, the sum of
// C(count, size) / C(n, size) over the levels, which has no bias as an estimate for new
// completions. REQUIRES: 1 <= size <= n.
double ConstantChance(const SampledPrompt& prompt, std::int64_t size);

// What an estimated rate rests on.
enum class RateBasis : std::uint8_t {
  kCounted,  // ConstantChance of every prompt with as many completions
  kFitted,   // the difficulty that makes the outcomes most likely
  kBound,    // the rate of a smaller group: a larger one is not constant more often
};

struct GroupRate {
  std::int64_t size = 0;
  RateBasis basis = RateBasis::kBound;
  Estimate constant = {};  // the ACR; of a bound `high` alone says something
};

// The ACR that groups of `size` would have, with its 95 % interval over prompts: MeanOver where
// half of the prompts or more have as many scored completions, IntervalOf a fitted difficulty up to
// twice as many, where prompts are binary, else a bound. Beyond twice as many the fit is biased by
// more than its interval allows (group_rates_test.cc). Prompts with fewer completions than half of
// the others do not count. REQUIRES: size >= 2.
GroupRate GroupRateAt(std::span<const SampledPrompt> prompts, std::int64_t size);

// The difficulty of the prompts; nullopt if there are none, or one is not binary.
std::optional<Difficulty> DifficultyOf(std::span<const SampledPrompt> prompts);

}  // namespace buttress
