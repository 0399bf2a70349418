#include "lib/explain/cause.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "lib/base/report/check.h"
#include "lib/explain/episode_causes.h"
#include "lib/explain/rates.h"

namespace buttress {
namespace {

constexpr std::array<CauseInfo, kCauses> kInfo = {{
    {"too easy", "the policy solves this prompt nearly always",
     "draw it less often: skip prompts whose last group was all-correct, or add harder prompts"},
    {"too hard", "the policy solves this prompt nearly never",
     "use easier prompts first or partial credit, or leave the prompt out until the policy is "
     "better"},
    {"truncated", "most completions were cut at the token limit before they could answer",
     "raise the token limit, or penalise length softly; never score a truncated completion as "
     "wrong"},
    {"unscorable", "the verifier could not judge the completions",
     "fix the verifier or the answers of the dataset; `buttress verify` shows the reasons"},
    {"verifier constant", "the verdict does not depend on what the completion says",
     "run the verifier on completions with known verdicts; look for timeouts, for errors that are "
     "scored as 0, and for a wrong answer field"},
    {"duplicate samples", "completions are copies that independent sampling cannot have produced",
     "give each completion its own seed; look for repeated requests and for caches keyed by the "
     "prompt"},
    {"mode-collapsed", "the policy produces nearly the same text every time",
     "raise the temperature, the entropy bonus or clip_high, or return to an earlier checkpoint"},
    {"stale weights", "the completions come from weights far behind the step",
     "check that new weights reach the sampler, and bound the age of groups"},
    {"float noise",
     "rewards differ by rounding only, and division by their deviation turns that into a signal",
     "compare raw rewards in double precision instead of a deviation with an epsilon"},
    {"unknown", "no other cause applies; at middling success rates a group is constant by chance",
     "nothing is broken; whether another group size pays follows from the difficulty of the "
     "prompts"},
    {"easy source",
     "the prompt has no recent visit, and by the difficulty of its source the policy solves it "
     "nearly always",
     "add harder prompts, or order them by difficulty; skipping prompts one by one needs visits "
     "that are less far apart"},
    {"hard source",
     "the prompt has no recent visit, and by the difficulty of its source the policy solves it "
     "nearly never",
     "begin with the easier prompts of the source, or give partial credit"},
    {"equal rewards",
     "all completions have the same reward, and nothing says whether it is that of a right answer",
     "name the column that says what is right by --reward; the other causes then follow"},
    {"never right",
     "no completion of the source was ever right, which verifier, format and prompts explain alike",
     "score answers that are known to be right with `buttress verify`: if they fail, mend the "
     "verifier or the answer field; if they pass, look at the format of the completions, then use "
     "easier prompts"},
    {"against history", "all are wrong, although earlier visits of the prompt were mostly right",
     "score the stored completions again, and look for a verifier that fails now and then "
     "(timeouts, errors that are scored as 0) or a policy that broke"},
    {"episode limit", "most episodes were ended at a limit of turns, tokens or tool calls",
     "raise the setting that the evidence names, or reward episodes that end sooner; `buttress "
     "samples` shows the conversations"},
    {"failing tools", "most tool calls of the episodes failed, so that the policy saw errors",
     "`buttress samples` shows what the tools said: look for a tool that is down or too slow, for "
     "arguments that it does not take, and for names that are not among the tools"},
    {"unreadable calls", "most tool calls are not in the form that the run reads",
     "set run.env.tool_format to the form in which the model writes calls, or begin with a model "
     "that has learnt it (`buttress sft` with conversations)"},
    {"loops", "the policy gives the same answers again and again within its episodes",
     "raise the temperature or return to an earlier checkpoint; let the environment end episodes "
     "that repeat themselves, with a lower reward"},
}};

struct Range {
  std::int64_t scorable = 0;
  double low = 0;
  double high = 0;
};

Range RangeOf(const GroupFacts& group) {
  Range range;
  for (const CompletionFacts& c : group.completions) {
    if (!c.scorable()) continue;
    range.low = range.scorable == 0 ? c.deciding_reward : std::min(range.low, c.deciding_reward);
    range.high = range.scorable == 0 ? c.deciding_reward : std::max(range.high, c.deciding_reward);
    ++range.scorable;
  }
  return range;
}

bool IsRounding(const Range& range) {
  return range.scorable >= 2 && range.high > range.low && EqualRewards(range.low, range.high);
}

// The position of a constant group among the rewards of the run.
enum class Level { kBest, kWorst, kBetween };

Level LevelOf(const GroupFacts& group, const Range& range, const GroupContext& context) {
  if (!group.judged()) return Level::kBetween;
  const CollapseClass collapse = group.collapse();
  if (collapse == CollapseClass::kAllCorrect) return Level::kBest;
  if (collapse == CollapseClass::kAllWrong) return Level::kWorst;
  if (context.highest == context.lowest)
    return range.low == 1 ? Level::kBest : range.low == -1 ? Level::kWorst : Level::kBetween;
  if (EqualRewards(range.low, context.highest)) return Level::kBest;
  return EqualRewards(range.high, context.lowest) ? Level::kWorst : Level::kBetween;
}

std::optional<Diagnosis> Unscorable(const GroupFacts& group, const Range& range,
                                    const CauseRules& rules) {
  const auto n = static_cast<std::int64_t>(group.completions.size());
  const std::int64_t lost = n - range.scorable;
  const bool many = n >= 2 && Share(lost, n) >= rules.unscorable_share;
  if (!many && range.scorable >= 2) return std::nullopt;
  if (lost == 0)
    return Diagnosis{Cause::kUnknown, fmt::format("{} completion, nothing to compare it with", n)};
  return Diagnosis{Cause::kUnscorable,
                   fmt::format("{} of {} completions have no verdict", lost, n)};
}

std::optional<Diagnosis> OldWeights(const GroupFacts& group, const CauseRules& rules) {
  if (!group.version_step || group.step - *group.version_step <= rules.stale_steps)
    return std::nullopt;
  return Diagnosis{Cause::kStaleWeights,
                   fmt::format("sampled from the weights of step {}, {} steps earlier",
                               *group.version_step, group.step - *group.version_step)};
}

std::string CopiesText(const GroupCopies& copies) {
  return fmt::format("{} of {} completions are copies ({} distinct texts, {} words)", copies.copied,
                     copies.known, copies.distinct, copies.words);
}

std::optional<Diagnosis> Duplicates(const GroupCopies& copies, const GroupContext& context,
                                    const CauseRules& rules) {
  if (Share(copies.copied, copies.known) < rules.copied_share) return std::nullopt;
  if (copies.chance) {
    if (*copies.chance >= rules.copies_chance) return std::nullopt;
    return Diagnosis{
        Cause::kDuplicateSamples,
        CopiesText(copies) +
            fmt::format("; their log-probs give this probability {:.1g}", *copies.chance)};
  }
  if (copies.words < rules.room_words) return std::nullopt;
  const bool varied = context.similarity && *context.similarity < rules.live_similarity;
  // A policy that repeats itself produces near copies next to exact copies; a faulty sampler
  // produces exact copies only.
  const bool near_beside = copies.distinct > 1 && copies.similarity >= rules.near_similarity;
  if (near_beside || (copies.words < rules.long_words && !varied)) return std::nullopt;
  std::string evidence = CopiesText(copies);
  if (varied)
    evidence += fmt::format("; recent groups share {:.0f} % of their runs of three words",
                            100 * *context.similarity);
  return Diagnosis{Cause::kDuplicateSamples, evidence};
}

std::optional<Diagnosis> Repeated(const GroupCopies& copies, const GroupContext& context,
                                  const CauseRules& rules) {
  if (!context.repeated_share || *context.repeated_share < rules.repeated_share)
    return std::nullopt;
  if (copies.words < rules.room_words || 2 * copies.distinct < copies.known) return std::nullopt;
  return Diagnosis{
      Cause::kStaleWeights,
      fmt::format("{:.0f} % of the texts equal those of step {} for this prompt: weights "
                  "and seeds have not changed",
                  100 * *context.repeated_share, context.repeated_step)};
}

std::optional<Diagnosis> Truncated(const GroupFacts& group, const GroupContext& context,
                                   const CauseRules& rules) {
  std::int64_t truncated = 0;
  for (const CompletionFacts& c : group.completions) truncated += IsTruncated(c, context) ? 1 : 0;
  const auto n = static_cast<std::int64_t>(group.completions.size());
  if (Share(truncated, n) < rules.truncated_share) return std::nullopt;
  const bool reported = std::ranges::all_of(
      group.completions, [](const CompletionFacts& c) { return c.truncated.has_value(); });
  return Diagnosis{Cause::kTruncated,
                   fmt::format("{} of {} completions {}", truncated, n,
                               reported ? "ended at the token limit"
                               : context.token_limit
                                   ? "have the greatest number of tokens, as many of the run do"
                                   : "end midway, at the greatest lengths of the run")};
}

std::optional<Diagnosis> ModeCollapsed(const GroupCopies& copies, Level level,
                                       const CauseRules& rules) {
  if (copies.known < 2) return std::nullopt;
  const bool certain = copies.chance && Share(copies.most, copies.known) >= rules.one_text_share;
  // A certain right answer is an easy prompt. A certain wrong answer is no longer explored.
  const bool short_text = copies.words < rules.room_words;
  if (short_text && (!certain || level == Level::kBest)) return std::nullopt;
  if (copies.similarity < rules.near_similarity && !certain) return std::nullopt;
  std::string evidence =
      fmt::format("{} distinct texts of {}, which share {:.0f} % of their runs of three words",
                  copies.distinct, copies.known, 100 * copies.similarity);
  if (certain)
    evidence +=
        fmt::format("; their log-probs give such copies probability {:.2g}", *copies.chance);
  return Diagnosis{Cause::kModeCollapsed, evidence};
}

// With no success in n trials the rate is below 3 / n at 95 %, since (1 - 3 / n)^n < 0.05.
std::string NeverRightText(std::int64_t completions) {
  return fmt::format("none of {} completions of this source was right, so p is below {:.2g} %",
                     completions, 100 * std::min(1.0, 3 / static_cast<double>(completions)));
}

// Returns a diagnosis if the second verifier contradicts a verdict that is equal for all.
std::optional<Diagnosis> Contradicted(const GroupFacts& group, Level level,
                                      const GroupContext& context, const CauseRules& rules) {
  std::int64_t known = 0;
  std::int64_t stated = 0;
  for (const CompletionFacts& c : group.completions) {
    known += c.states_truth.has_value() ? 1 : 0;
    stated += c.states_truth.value_or(false) ? 1 : 0;
  }
  const bool trusted =
      !context.truth_agreement || *context.truth_agreement >= rules.truth_agreement;
  if (known < 2 || !trusted) return std::nullopt;
  if (level == Level::kBest && context.truth_agreement && 2 * (known - stated) >= known) {
    return Diagnosis{
        Cause::kVerifierConstant,
        fmt::format("all are scored correct, but {} of {} do not state the ground truth",
                    known - stated, known)};
  }
  if (level == Level::kBest || stated < 2 || Share(stated, known) < rules.stated_share)
    return std::nullopt;
  const bool never = level == Level::kWorst && context.never_right > 0;
  return Diagnosis{
      never ? Cause::kNeverRight : Cause::kVerifierConstant,
      fmt::format("{}, but {} of {} state the ground truth",
                  never ? NeverRightText(context.never_right) : "all are scored equally", stated,
                  known)};
}

std::optional<Diagnosis> VerifierConstant(const GroupFacts& group, Level level, const Range& range,
                                          const GroupContext& context, const CauseRules& rules) {
  if (auto contradicted = Contradicted(group, level, context, rules)) return contradicted;
  if (context.constant_chance && *context.constant_chance < rules.verifier_chance &&
      context.constant_groups >= rules.verifier_groups) {
    return Diagnosis{
        Cause::kVerifierConstant,
        fmt::format("all {} groups of this source at {} have reward {:g}, which has probability "
                    "{:.1g} at its recent rates",
                    context.constant_groups,
                    context.constant_steps > 1
                        ? fmt::format("the last {} steps", context.constant_steps)
                        : std::string("this step"),
                    range.low, *context.constant_chance)};
  }
  if (!context.constant_always) return std::nullopt;
  return Diagnosis{Cause::kVerifierConstant,
                   fmt::format("this source has only ever given reward {:g}", range.low)};
}

// Returns a diagnosis if all are wrong where earlier visits were mostly right.
std::optional<Diagnosis> AgainstHistory(Level level, const Range& range,
                                        const GroupContext& context, const CauseRules& rules) {
  if (level != Level::kWorst || context.visits_scored == 0) return std::nullopt;
  // That of a beta-binomial distribution after the earlier visits.
  const double wrong = 1 + context.visits_scored - context.visits_correct;
  const double all = 2 + context.visits_scored;
  double chance = 1;
  for (std::int64_t i = 0; i < range.scorable; ++i)
    chance *= (wrong + static_cast<double>(i)) / (all + static_cast<double>(i));
  if (chance >= rules.history_chance) return std::nullopt;
  return Diagnosis{
      Cause::kAgainstHistory,
      fmt::format("all {} wrong, which has probability {:.1g} after a success rate of {:.2f} at "
                  "earlier visits",
                  range.scorable, chance, context.visits_correct / context.visits_scored)};
}

// "79 %", "less than 1 %".
std::string PercentText(double share) {
  if (share < 0.01) return "less than 1 %";
  if (share > 0.99) return "more than 99 %";
  return fmt::format("{:.0f} %", 100 * share);
}

// Where the prompt has no visit of late, the other prompts of its source are all there is.
Diagnosis BySource(const GroupFacts& group, bool best, const Range& range, double certainty,
                   const GroupContext& context, const CauseRules& rules) {
  const std::int64_t n = range.scorable;
  const std::string seen = context.last_visit ? fmt::format("last seen {} steps before",
                                                            group.step - *context.last_visit)
                                              : "first seen";
  const Cause cause = certainty < 1 - rules.chance ? Cause::kUnknown
                      : best                       ? Cause::kEasySource
                                                   : Cause::kHardSource;
  const double alike =
      best ? context.difficulty.AllCorrect({}, n) : context.difficulty.AllWrong({}, n);
  const std::string all = fmt::format("all {} {}", n, best ? "correct" : "wrong");
  const std::string basis =
      context.difficulty_groups == 0
          ? std::string("of its source nothing is known")
          : fmt::format("its source leads to {} in {} of its groups", all, PercentText(alike));
  return {cause, fmt::format("{}, {}; {}, and with probability {:.2f} the success rate of the "
                             "prompt is {} {}",
                             all, seen, basis, certainty, best ? "above" : "below",
                             best ? rules.easy_rate : rules.hard_rate)};
}

Diagnosis ByDifficulty(const GroupFacts& group, Level level, const Range& range,
                       const GroupContext& context, const CauseRules& rules) {
  const auto n = static_cast<double>(range.scorable);
  if (level == Level::kBetween) {
    return {Cause::kUnknown,
            fmt::format("all rewards are {:g}, between the worst {:g} and the best {:g} of the run",
                        range.low, context.lowest, context.highest)};
  }
  const bool best = level == Level::kBest;
  const Trials past = {context.past_correct, context.past_scored};
  const double chance = best ? context.difficulty.Below(rules.easy_rate, past, {n, n})
                             : 1 - context.difficulty.Below(rules.hard_rate, past, {0, n});
  if (past.scored == 0) return BySource(group, best, range, 1 - chance, context, rules);
  const std::string evidence = fmt::format(
      "all {} {}, by chance with probability {:.2f}; success rate {:.2f} at earlier "
      "visits",
      range.scorable, best ? "correct" : "wrong", chance, past.correct / past.scored);
  if (chance <= rules.chance) return {best ? Cause::kTooEasy : Cause::kTooHard, evidence};
  return {Cause::kUnknown, evidence};
}

}  // namespace

const CauseInfo& InfoOf(Cause cause) { return kInfo[static_cast<std::size_t>(cause)]; }

bool DiffersByRounding(const GroupFacts& group) { return IsRounding(RangeOf(group)); }

bool IsTruncated(const CompletionFacts& c, const GroupContext& context) {
  if (c.truncated) return *c.truncated;
  if (c.tokens && context.token_limit) return *c.tokens >= *context.token_limit;
  return context.long_length && c.text.ends_midway && c.text.length >= *context.long_length;
}

Diagnosis Diagnose(const GroupFacts& group, const GroupContext& context, const CauseRules& rules) {
  BUTTRESS_CHECK(group.collapse() != CollapseClass::kMixed,
                 "a group with a signal has no cause of collapse");
  const Range range = RangeOf(group);
  if (IsRounding(range)) {
    return {Cause::kFloatNoise, fmt::format("rewards {:.9g} to {:.9g} differ by {:.1g}", range.low,
                                            range.high, range.high - range.low)};
  }
  const GroupCopies copies = FindCopies(group);
  const Level level = LevelOf(group, range, context);
  if (auto found = Unscorable(group, range, rules)) return *found;
  if (auto found = OldWeights(group, rules)) return *found;
  if (auto found = Duplicates(copies, context, rules)) return *found;
  if (auto found = Repeated(copies, context, rules)) return *found;
  if (level != Level::kBest) {
    if (auto found = DiagnoseEpisodes(group, rules)) return *found;
    if (auto found = Truncated(group, context, rules)) return *found;
  }
  if (auto found = ModeCollapsed(copies, level, rules)) return *found;
  if (!group.judged()) {
    return {Cause::kEqualRewards,
            fmt::format("all {} have reward {:g}, and nothing says whether that is right",
                        range.scorable, range.low)};
  }
  if (auto found = VerifierConstant(group, level, range, context, rules)) return *found;
  if (level == Level::kWorst && context.never_right > 0)
    return {Cause::kNeverRight, NeverRightText(context.never_right)};
  if (auto found = AgainstHistory(level, range, context, rules)) return *found;
  return ByDifficulty(group, level, range, context, rules);
}

}  // namespace buttress
