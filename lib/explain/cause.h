// Why a group gave no signal: one cause of a fixed list, with its evidence. Pure.
//
// The first that applies, in this order: what makes the rest meaningless stands first.
//   float noise        rewards differ by rounding only: trainers that divide by the standard
//   deviation see a signal that is not there unscorable         the verifier could not judge the
//   completions stale weights      sampled from weights far behind the step, or the same texts as
//   this prompt gave before duplicate samples  copies of one another that independent sampling
//   cannot have made truncated          cut at the token limit before an answer mode-collapsed the
//   policy gives nearly one text verifier constant  the verdict does not depend on the completion
//   too easy, too hard by the prompt's success rate, this group counted
//   unknown            none of these; at middling success rates mostly chance
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/explain/facts.h"
#include "lib/rl/acr.h"

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
};

inline constexpr std::size_t kCauses = 10;

struct CauseInfo {
  std::string_view name;     // "too easy": in text and JSON
  std::string_view meaning;  // one sentence
  std::string_view mend;     // what to do next
};

const CauseInfo& InfoOf(Cause cause);

// Every threshold of this folder, and why it is where it is.
struct CauseRules {
  // Rewards are sums of a few float32 numbers: each addition is off by 6e-8 of its value, ten of
  // them and a cast stay below 1e-6.
  double float_noise = 1e-6;  // times max(1, |reward|)

  // Where half of a group cannot be judged, its class is that of the rest, and a smaller group
  // collapses more often whatever the prompt.
  double unscorable_share = 0.5;

  // Twice the largest staleness bound in use (AReaL's 8): no asynchronous trainer means to train on
  // such weights.
  std::int64_t stale_steps = 16;

  // Texts of fewer words have no room to differ: "42" eight times proves nothing about the sampler.
  std::int32_t room_words = 16;

  // Shares of a group's completions that decide about the whole: copies, repeats of an earlier
  // group, cut ends.
  double copied_share = 0.5;
  double repeated_share = 0.5;
  double truncated_share = 0.5;

  // Probability of the copies under the sampler's own log-probs below which they are no accident:
  // a run has 1e4 to 1e6 groups.
  double copies_chance = 1e-6;

  // Share of completions with one and the same text from which a policy that makes such copies
  // likely has nearly one text left: below it the entropy of a whole completion is above a nat.
  double one_text_share = 0.75;

  // Without log-probs: at 0.05 nats a word, less than any healthy run has, 64 words come again with
  // probability exp(-3.2) = 4 %.
  std::int32_t long_words = 64;

  // Share of common runs of three words. Samples of one prompt at temperature 1 share 0.05 to 0.4;
  // two texts that each differ from a third in one word of fifty share 0.8, of which an estimate
  // from 32 bins is off by up to 0.15.
  double near_similarity = 0.65;
  // Where the groups around share less than this, the policy is alive, and equal texts of 16 to 64
  // words are the sampler's fault.
  double live_similarity = 0.5;

  // Text-only dumps: a completion counts as cut if it ends midway and is among the longest, where
  // short ones rarely end so.
  double midway_base = 0.2;     // of the shorter half; above it endings say nothing
  double long_quantile = 0.75;  // of recent lengths

  // All groups of a source constant at one value by chance: below 1e-6 for at least four groups.
  // Over 1e4 steps with ten sources that is one false alarm in ten runs.
  double verifier_chance = 1e-6;
  std::int64_t verifier_groups = 4;
  // Groups of a source before its own rate of collapse is believed.
  std::int64_t verifier_memory = 32;

  // A second verifier is believed where it agreed with the rewards of mixed groups this often, over
  // that many completions.
  double truth_agreement = 0.9;
  std::int64_t truth_count = 64;

  // Success rate of the prompt, posterior mean under Beta(1, 1), with this group and its earlier
  // ones, each visit counting half of the next. At 0.8 a group of eight is all-correct one time in
  // six: collapse is then what to expect of the prompt. Three equal results without a history just
  // reach it; two say nothing.
  double easy_rate = 0.8;
  double hard_rate = 0.2;
};

// What the run says around a group (run_memory.h makes it).
struct GroupContext {
  double lowest = 0;  // raw rewards of the run so far
  double highest = 0;
  double past_correct = 0;  // of the prompt, older visits fading
  double past_scored = 0;
  std::optional<double> repeated_share;  // completions whose text the prompt gave at its last visit
  std::int64_t repeated_step = 0;        // step of that visit
  std::optional<double> similarity;      // mean over recent groups
  std::optional<std::int32_t> token_limit;  // where many completions end
  std::optional<std::int32_t>
      long_length;  // long_quantile of recent lengths; none where endings say nothing
  std::optional<double>
      constant_chance;  // that all groups of the source at this step are constant at this value
  std::int64_t constant_groups = 0;
  bool constant_always = false;  // the source never gave another value, and it is neither the worst
                                 // nor the best one can be
  std::optional<double> truth_agreement;  // of the second verifier with mixed groups
};

struct Diagnosis {
  Cause cause = Cause::kUnknown;
  std::string evidence;
};

// Whether a group has no signal: constant or unscorable by ClassifyGroup, or mixed by rounding
// only. Pure.
bool HasNoSignal(const GroupFacts& group, const CauseRules& rules);

// Mixed by ClassifyGroup, but only by rounding. Pure.
bool DiffersByRounding(const GroupFacts& group, const CauseRules& rules);

// Whether completion `c` was cut at the token limit, as far as one can know. Pure.
bool IsCut(const CompletionFacts& c, const GroupContext& context);

// REQUIRES: HasNoSignal(group). Pure.
Diagnosis Diagnose(const GroupFacts& group, const GroupContext& context, const CauseRules& rules);

}  // namespace buttress
