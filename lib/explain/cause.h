// Names the cause for which a group gave no signal, with evidence. Pure.
//
// The first cause that applies is taken, in this order, because each makes the later ones
// meaningless: float noise, unscorable, stale weights, duplicate samples, those of episodes
// (episode_causes.h), truncated, mode-collapsed, verifier constant, never right, against history,
// too easy or too hard, easy source or hard source (where the prompt has no recent visit), unknown.
// Where nothing says which completions are right, equal rewards stands in the place of verifier
// constant and what follows. InfoOf says what each means.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/explain/facts.h"
#include "lib/rl/collapse/acr.h"
#include "lib/rl/collapse/difficulty.h"

namespace buttress {

enum class Cause : std::uint8_t {
  kTooEasy,
  kTooHard,
  kTruncated,
  kUnscorable,
  kVerifierConstant,
  kDuplicateSamples,
  kModeCollapsed,
  kStaleWeights,
  kFloatNoise,
  kUnknown,
  kEasySource,
  kHardSource,
  kEqualRewards,
  kNeverRight,
  kAgainstHistory,
  kEpisodeLimit,
  kFailingTools,
  kUnreadableCalls,
  kLoops,
};

inline constexpr std::size_t kCauses = 19;

struct CauseInfo {
  std::string_view name;     // in text and JSON, for example "too easy"
  std::string_view meaning;  // one sentence
  std::string_view fix;      // what to do next
};

const CauseInfo& InfoOf(Cause cause);

// Every threshold of this folder, with its reason.
struct CauseRules {
  // If half of a group cannot be judged, the other half alone decides its class, and a smaller
  // group collapses more often whatever the prompt.
  double unscorable_share = 0.5;

  // Twice the largest staleness bound in use (AReaL: 8). No asynchronous trainer intends to train
  // on older weights.
  std::int64_t stale_steps = 16;

  // Shorter texts cannot differ much: "42" eight times proves nothing about the sampler.
  std::int32_t room_words = 16;

  // Shares of a group's completions above which the whole group counts as copied, repeated from an
  // earlier group, truncated, ended at a limit of its episodes, or as one that calls tools.
  double copied_share = 0.5;
  double repeated_share = 0.5;
  double truncated_share = 0.5;
  double limit_share = 0.5;

  // The lower end of the 95 % interval of the share of tool calls that failed, or of answers that
  // repeat an earlier one of their episode, from which most of them do: 4 of 4, 7 of 8, 12 of 16.
  double most_share = 0.5;
  // Episodes without a reward of a turn from which fewer than 3 in 100 have one (NeverRightText).
  std::int64_t credit_episodes = 100;

  // Probability of the copies under the sampler's log-probs below which they are not accidental. A
  // run has 1e4 to 1e6 groups.
  double copies_chance = 1e-6;

  // Share of completions with one text from which the policy has nearly one text left. Below this
  // share the entropy of a whole completion exceeds one nat.
  double one_text_share = 0.75;

  // Without log-probs: at 0.05 nats per word, less than in any healthy run, a text of 64 words
  // repeats with probability exp(-3.2) = 4 %.
  std::int32_t long_words = 64;

  // Share of common runs of three words. Samples of one prompt at temperature 1 share 0.05 to 0.4.
  // Two texts that each differ from a third in one word of fifty share 0.8; the estimate from 32
  // bins has an error of up to 0.15.
  double near_similarity = 0.65;
  // If recent groups share less than this, the policy still varies its texts, and equal texts of 16
  // to 64 words are a fault of the sampler.
  double live_similarity = 0.5;

  // Dumps without finish reasons: the greatest number of tokens is the limit if at least so many
  // times as many completions have it as have each of the numbers below it, down to limit_near of
  // it. Shorter answers have one length by their form, as numbers of three digits do.
  double limit_spike = 5, limit_near = 0.9;
  std::int32_t shortest_limit = 32;

  // Dumps of texts alone: a completion counts as truncated if it ends midway and is among the
  // longest, provided that short completions rarely end midway.
  double midway_base = 0.2;     // share of the shorter half above which endings are not used
  double long_quantile = 0.75;  // quantile of recent lengths from which a completion is long

  // Probability, under chance, that all groups of a source are constant at one value; at least four
  // groups. Over 1e4 steps with ten sources this gives one false alarm in ten runs.
  double verifier_chance = 1e-6;
  std::int64_t verifier_groups = 4;
  // The rate of a source is that of its last whole steps with this many groups, so that it follows
  // a source that becomes easy. From as many groups on a source may be called never right.
  std::int64_t verifier_memory = 32;
  // Successive steps with one value count together, up to this many groups. A source with a rate
  // above 0.81 never comes below verifier_chance: 0.81^64 = 1.4e-6.
  std::int64_t streak_groups = 64;
  // Verdicts of a second verifier, at one step of a source, from which it may confirm the first.
  std::int64_t confirming_count = 16;

  // Probability of an all-wrong group, given earlier visits and else equally likely rates, below
  // which it speaks against them. With rates that stand still such a group is far rarer, since
  // the visits that lead to it are.
  double history_chance = 1e-3;

  // A second verifier is used if it agreed with the rewards of mixed groups at this rate, over at
  // least this many completions.
  double truth_agreement = 0.9;
  std::int64_t truth_count = 64;

  // Share of a group of equal verdicts, with two completions at least, that must state the ground
  // truth to contradict them. A reader that errs on 1 % finds it by chance in fewer than one group
  // in a thousand, of 4 to 16 completions.
  double stated_share = 0.25;

  // Success rates from which a prompt is easy, and up to which it is hard. At 0.8 a group of eight
  // is all-correct one time in six, so collapse is expected.
  double easy_rate = 0.8;
  double hard_rate = 0.2;
  // A constant group is chance if its prompt is more likely than this not to be easy (hard), by the
  // difficulty of its source, this group and earlier ones, where each visit has half the weight of
  // the next. With all rates equally likely, three equal results are below it, two are not.
  double chance = 0.5;

  // Age in steps above which an earlier visit of a prompt says nothing about it: the policy has
  // moved on. Runs of papers visit a prompt each 50 to 500 steps; where visits are further apart,
  // what they predict is the policy of another time.
  std::int64_t history_steps = 500;
};

// What the run so far says about a group. RunHistory makes it.
struct GroupContext {
  double lowest = 0;   // smallest deciding reward of the run so far
  double highest = 0;  // largest deciding reward of the run so far
  // Correct and scored completions of the prompt at visits of the last history_steps steps, where
  // older visits weigh less.
  double past_correct = 0;
  double past_scored = 0;
  // The same visits with equal weights; 0 if the newest of them was all wrong, since what lasts is
  // a change of the policy.
  double visits_correct = 0;
  double visits_scored = 0;
  std::optional<std::int64_t> last_visit;  // step of the prompt's last visit, however old
  // Share of completions whose text the prompt also gave at its last visit, and that visit's step.
  std::optional<double> repeated_share;
  std::int64_t repeated_step = 0;
  std::optional<double> similarity;         // mean over recent groups
  std::optional<std::int32_t> token_limit;  // length at which many completions end
  // The long_quantile of recent lengths; nullopt if endings are not used.
  std::optional<std::int32_t> long_length;
  // Probability that all groups of the source at this step, and at the steps before with the same
  // value, are constant at it; nullopt if they are not.
  std::optional<double> constant_chance;
  std::int64_t constant_groups = 0;
  std::int64_t constant_steps = 0;
  // The source never gave another value, and the value is neither the worst nor the best possible.
  bool constant_always = false;
  // Completions of the source so far if none of them was right, over verifier_memory groups or
  // more; else 0.
  std::int64_t never_right = 0;
  Difficulty difficulty;                  // of the source
  std::int64_t difficulty_groups = 0;     // to which it was fitted; 0: all rates are equally likely
  std::optional<double> truth_agreement;  // agreement of the second verifier with mixed groups
};

struct Diagnosis {
  Cause cause = Cause::kUnknown;
  std::string evidence;
};

// Returns whether the rewards of a group differ, but only by rounding. Pure.
bool DiffersByRounding(const GroupFacts& group);

// Returns whether the facts show that `c` was truncated at the token limit. Pure.
bool IsTruncated(const CompletionFacts& c, const GroupContext& context);

// Returns the cause with its evidence. REQUIRES: the group is not kMixed.
// Pure.
Diagnosis Diagnose(const GroupFacts& group, const GroupContext& context, const CauseRules& rules);

}  // namespace buttress
