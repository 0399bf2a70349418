// Which prompts are passed over, from what their earlier groups gave. All pure; random numbers
// follow from keys that come in as arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/random.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

// What is remembered of a prompt; all zero before its first group.
struct PromptRecord {
  std::int64_t easy_in_a_row =
      0;  // groups with a mean raw reward of at least kEasyReward, up to the last one
  std::int64_t hard_in_a_row = 0;  // the same, at most kHardReward
  bool last_constant = false;      // the last group was constant
  std::uint64_t last_pass = 0;     // pass over the dataset that it was drawn in
  double correct = 0;              // completions, older groups decayed
  double wrong = 0;

  bool operator==(const PromptRecord&) const = default;
};

// Bounds of GRESO's released code.
inline constexpr double kEasyReward = 0.98;
inline constexpr double kHardReward = 0.11;

// Why a prompt was passed over.
enum class SkipReason : std::uint8_t {
  kEasy,      // greso: all correct again and again
  kHard,      // greso: all wrong again and again
  kConstant,  // speed: its last group was constant
  kFarther,   // mopps: another candidate was nearer to the target
};

inline constexpr std::size_t kSkipReasons = 4;

// "easy", "hard", "constant", "farther".
std::string_view SkipReasonName(SkipReason reason);

// Adds an accepted group of a prompt to the prompt's record. `raw_rewards` and `outcomes` are [n],
// `collapse` is their class; unscorable completions count nowhere, and a group without a scorable
// completion changes last_pass alone. `decay` is MoPPS's weight of the earlier groups.
void AddGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
              CollapseClass collapse, std::uint64_t pass, double decay, PromptRecord& record);

// GRESO (arXiv 2506.02177): 1 - max(base^in_a_row, 0.01).
double GresoSkipProbability(std::int64_t in_a_row, double base);

// Bases of the chances to draw easy and hard prompts again.
struct GresoBases {
  double easy = 0.5;
  double hard = 0.5;

  bool operator==(const GresoBases&) const = default;
};

// After a step: each base moves by 0.01, down where the step's share of all-correct (all-wrong)
// groups reached a third (two thirds) of `target`, else up; within [0.05, 0.95]. Shares are of the
// groups that ACR counts; without any nothing moves.
GresoBases AdaptGreso(const GresoBases& bases, const CollapseCounts& step, double target);

// `uniform` is in [0, 1). None: draw the prompt.
std::optional<SkipReason> GresoSkips(const PromptRecord& record, const GresoBases& bases,
                                     double uniform);

// After SPEED (arXiv 2506.09016), whose screening is the prompt's last group here: true in the
// `rest` passes after a constant one.
bool SpeedSkips(const PromptRecord& record, std::uint64_t pass, std::int64_t rest);

// The Beta(a, b) variate of `key`, from two gamma variates (Marsaglia and Tsang 2000). REQUIRES: a,
// b >= 1.
double SampleBeta(double a, double b, RandomKey key);

// MoPPS (arXiv 2507.04632): success rate drawn from the prompt's posterior Beta(1 + correct, 1 +
// wrong).
double ThompsonRate(const PromptRecord& record, RandomKey key);

// Index of the rate nearest to `target`, the first of equals. REQUIRES: not empty.
std::size_t NearestRate(std::span<const double> rates, double target);

}  // namespace buttress
