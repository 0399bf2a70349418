// What the groups of one source did of late: how many were constant at the best or at the worst
// reward, and for how many groups in a row all have been constant at one value.
#pragma once

#include <cstdint>
#include <deque>

namespace buttress {

struct CauseRules;

enum class ConstantAt { kBest, kWorst, kBetween };

// The groups of a source at one step.
struct SourceStep {
  std::int64_t groups = 0;
  std::int64_t best = 0;   // constant at the best reward of the run
  std::int64_t worst = 0;  // constant at the worst one
  bool constant = true;    // all are constant at `value`
  double value = 0;
  // Probability that all are constant at it, and that of the run of such steps that ends here with
  // its length.
  double chance = 1;
  double streak_chance = 1;
  std::int64_t streak_groups = 0;
  std::int64_t streak_steps = 0;
  // A second verifier agrees with the verdicts.
  bool confirmed = false;

  // Returns whether only a verifier that ignores its input explains the step.
  bool fault(const CauseRules& rules) const;
};

// The steps of a streak are kept apart until another value ends it or it exceeds
// CauseRules::streak_groups, so that a fault is not compared with itself. Steps of a fault do not
// count; one group with another value ends it. Not thread-safe.
class SourceRecord {
 public:
  // The upper end of the 95 % interval of the share of groups that are constant at `at`, over the
  // last whole steps with CauseRules::verifier_memory groups; 1 before there are as many.
  double MostRate(ConstantAt at, const CauseRules& rules) const;

  // Sets the streak that `step`, with its own chance, continues or begins.
  void SetStreak(SourceStep& step) const;

  // REQUIRES: SetStreak was called.
  void Add(const SourceStep& step, const CauseRules& rules);

 private:
  void AddToRecent(const SourceStep& step, const CauseRules& rules);

  std::deque<SourceStep> recent_, streak_;  // newest last
  std::int64_t recent_groups_ = 0, streak_groups_ = 0;
};

}  // namespace buttress
