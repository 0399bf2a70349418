// The selection of prompts to pass over, by the results of their earlier groups. All functions are
// pure; random numbers follow from keys that are arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/text/random.h"
#include "lib/config/sections/data_config.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

// The history of one prompt; all zero before its first group.
struct PromptRecord {
  std::int64_t easy_in_a_row = 0;  // last groups with a mean raw reward of at least kEasyReward
  std::int64_t hard_in_a_row = 0;  // last groups with a mean raw reward of at most kHardReward
  bool last_constant = false;      // whether the last group was constant
  std::uint64_t last_pass = 0;     // pass over the dataset in which the last group was drawn
  double correct = 0;              // correct completions, older groups decayed
  double wrong = 0;                // wrong completions, older groups decayed

  bool operator==(const PromptRecord&) const = default;
};

// Bounds of GRESO's released code.
inline constexpr double kEasyReward = 0.98;
inline constexpr double kHardReward = 0.11;

// The reason for passing a prompt over.
enum class SkipReason : std::uint8_t {
  kEasy,      // greso: all-correct several times in a row
  kHard,      // greso: all-wrong several times in a row
  kConstant,  // speed: the last group was constant
  kFarther,   // mopps: another candidate was nearer to the target
  kOverLong,  // the prompt has more tokens than the run allows
};

inline constexpr std::size_t kSkipReasons = 5;

// Prompts passed over, by reason.
using SkipCounts = std::array<std::int64_t, kSkipReasons>;

// "easy", "hard", "constant", "farther", "over_long".
std::string_view SkipReasonName(SkipReason reason);

// Adds an accepted group of the prompt to its record. `outcomes` and `raw_rewards` are [n],
// `collapse` is their class. Unscorable completions do not count, and a group without a scorable
// one changes last_pass alone. `decay` is the weight that MoPPS gives to older results.
void AddGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
              CollapseClass collapse, std::uint64_t pass, double decay, PromptRecord& record);

// GRESO (arXiv 2506.02177): the probability of passing a prompt over, 1 - max(base^in_a_row, 0.01).
double GresoSkipProbability(std::int64_t in_a_row, double base);

// Bases of the probabilities with which easy and hard prompts are drawn again.
struct GresoBases {
  double easy = 0.5;
  double hard = 0.5;

  bool operator==(const GresoBases&) const = default;
};

// The bases after a step: each moves by 0.01, down where the step's share of all-correct
// (all-wrong) groups is at least a third (two thirds) of `target`, else up, within [0.05, 0.95].
// The shares are of the groups that ACR counts; without such a group the bases stay.
GresoBases AdaptGreso(const GresoBases& bases, const CollapseCounts& step, double target);

// Whether GRESO passes the prompt over, given a uniform random number in [0, 1); nullopt means that
// the prompt is drawn.
std::optional<SkipReason> GresoSkips(const PromptRecord& record, const GresoBases& bases,
                                     double uniform);

// The probability with which GresoSkips draws the prompt, at least 0.01.
double GresoDrawProbability(const PromptRecord& record, const GresoBases& bases);

// Whether the prompt is passed over after SPEED (arXiv 2506.09016), where the last group of a
// prompt is its screening: true in the `rest` passes after a constant group.
bool SpeedSkips(const PromptRecord& record, std::uint64_t pass, std::int64_t rest);

// The Beta(a, b) variate of `key`, from two gamma variates (Marsaglia and Tsang 2000). REQUIRES:
// a, b >= 1.
double SampleBeta(double a, double b, RandomKey key);

// MoPPS (arXiv 2507.04632): a success rate drawn from the prompt's posterior, Beta(1 + correct, 1 +
// wrong).
double ThompsonRate(const PromptRecord& record, RandomKey key);

// Index of the rate nearest to `target`, the first of equally near ones. REQUIRES: not empty.
std::size_t NearestRate(std::span<const double> rates, double target);

// Where a prompt comes up.
struct PromptPlace {
  std::uint64_t pass = 0;  // over the dataset
  std::uint64_t row = 0;
};

// Returns why run.data.selection passes a prompt with this record over, or nullopt if it is drawn.
// The modes none and mopps never do: mopps compares a prompt with others. The same arguments give
// the same answer; `seed` is that of the run.
std::optional<SkipReason> PassedOver(const SelectionConfig& selection, std::uint64_t seed,
                                     const PromptPlace& place, const PromptRecord& record,
                                     const GresoBases& bases);

}  // namespace buttress
