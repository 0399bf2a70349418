// The difficulty of the prompts of a source: how their success rates p are distributed, and what
// that predicts for a group of a prompt (docs/theory.md, section 1).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>

#include "lib/experience/types.h"

namespace buttress {

// Correct completions and scored ones of one prompt. Older results may weigh less than 1.
struct Trials {
  double correct = 0;
  double scored = 0;

  auto operator<=>(const Trials&) const = default;
};

inline Trials TrialsOf(const PromptHistory& history) {
  return {static_cast<double>(history.correct), static_cast<double>(history.scored)};
}

// The newest of these visits weigh most.
inline Trials RecentTrialsOf(const PromptHistory& history) {
  return {history.recent_correct, history.recent_scored};
}

// A group, and what its prompt had shown before it.
struct GroupTrials {
  Trials before;
  Trials own;

  auto operator<=>(const GroupTrials&) const = default;
};

// A distribution of success rates over a grid that is dense near 0 and 1. A default one is uniform.
// Predictions weigh the history of the prompt: by 1 if success rates stand still,
// less if the policy has moved since. Thread-safe. REQUIRES: 0 <= correct <= scored of all trials.
class Difficulty {
 public:
  static constexpr std::size_t kRates = 41;

  Difficulty();

  // The distribution that makes the groups' own results most likely (maximum likelihood of a
  // mixture of binomials by expectation maximisation), as if two groups of a uniform one had been
  // seen before. Of a few history weights it has the largest under which the histories predict the
  // collapse rate of these groups up to its standard error. Pure; the order of the groups does not
  // matter.
  static Difficulty Fit(std::span<const GroupTrials> groups);

  // The distribution now, of groups in the order in which they were drawn, where the policy has
  // moved meanwhile: the logit of every rate by the same straight line in time, so that rates may
  // rise, fall or become certain. The line makes the mixed groups most likely, each given that it
  // is mixed, since a fault that makes groups constant leaves those alone. Histories, which are
  // older still, then count for nothing. Equals Fit unless the line is significant.
  //
  // Prompts that are learned one after another move on no common line. Where most of the newest
  // groups have a history, these make the mixed ones more likely than the line does, and they
  // expect more collapse, each prompt follows its own history from the distribution of the newest
  // groups.
  static Difficulty FitMoving(std::span<const GroupTrials> groups);

  // Probabilities that a group of `n` scorable completions is all-correct, E[p^n], all-wrong, and
  // either; the last is 1 for n < 2, where no two rewards can differ.
  double AllCorrect(const Trials& history, std::int64_t n) const;
  double AllWrong(const Trials& history, std::int64_t n) const;
  double Constant(const Trials& history, std::int64_t n) const;

  // Probability that the prompt's success rate is below `rate`, given its history and the group
  // `own`.
  double Below(double rate, const Trials& history, const Trials& own) const;

 private:
  using Weights = std::array<double, kRates>;

  // What a fit says of groups whose prompts have a history: the log-likelihood of the results of
  // mixed ones, given that they are mixed, and how many are expected to be constant.
  struct Explained {
    double log_likelihood = 0;
    double constant = 0;
    std::size_t groups = 0;
  };

  static Difficulty FitLine(std::span<const GroupTrials> groups);

  Explained Explains(std::span<const GroupTrials> groups) const;

  // Normalised.
  Weights Posterior(const Trials& history, const Trials& own) const;

  Weights weights_;
  double history_weight_ = 1;
};

// The difficulty of a source over the last kGroups groups, those with the greatest numbers in
// whatever order they come. Not thread-safe.
class RecentDifficulty {
 public:
  static constexpr std::size_t kGroups = 1024;

  // `number` orders the groups. A group without scored completions does not count.
  void Add(std::uint64_t number, const GroupTrials& group);

  // Removes a group that was added. Older ones that it had displaced do not come back.
  void Remove(std::uint64_t number) { groups_.erase(number); }

  // FitMoving of these groups.
  Difficulty Fit() const;

  std::size_t groups() const { return groups_.size(); }

  bool operator==(const RecentDifficulty&) const = default;

 private:
  std::map<std::uint64_t, GroupTrials> groups_;
};

// The collapse rate that difficulty gives, and the 95 % interval of what is then observed.
struct ExpectedRate {
  double rate = 0;
  double low = 0;
  double high = 1;

  bool contains(double observed) const { return low <= observed && observed <= high; }
};

// The interval around `rate` for `groups` groups whose difficulty was fitted to `fitted` groups:
//   1.96 sqrt(rate (1 - rate) (1 / groups + 1 / fitted)) + kFitBias
// It is [0, 1] if either number is 0. Pure.
ExpectedRate IntervalOf(double rate, std::int64_t groups, std::int64_t fitted);

// The largest bias of the expected rate over the mixes of prompts in difficulty_test.cc.
inline constexpr double kFitBias = 0.02;

}  // namespace buttress
