// Collects the report of `buttress explain` step by step: rates, causes with evidence, trends, and
// what remedies would have changed.
//
// Memory: one StepPoint per step, kExamples groups per cause, and the bounds of RunHistory. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/explain/cause.h"
#include "lib/explain/facts.h"
#include "lib/explain/rates.h"
#include "lib/explain/remedies.h"
#include "lib/explain/run_history.h"
#include "lib/explain/tally.h"
#include "lib/explain/turn_credit.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

struct CollapsedGroup {
  std::int64_t step = 0;
  std::string prompt_id;
  std::string source;
  std::string sampler;
  std::string where;
  CollapseClass collapse = CollapseClass::kUnscorable;
  Diagnosis diagnosis;
  bool judged = true;  // GroupFacts::judged
};

// One step of the run.
struct StepPoint {
  std::int64_t step = 0;
  CollapseCounts counts;
  std::int64_t near_collapse = 0;
  std::int64_t rounding_only = 0;  // constant groups whose rewards differ by rounding
  CauseCounts causes{};
  // Over groups whose prompt has a recent visit (RunHistory::RecentOf): the observed ACR and the
  // one that these visits and the difficulty of the sources predict.
  std::int64_t with_history = 0;
  double observed_acr = 0;
  double expected_acr = 0;
  std::int64_t completions = 0;
  std::int64_t truncated = 0;
  std::optional<double> raw_reward_mean;  // over scorable completions
  std::optional<double> accuracy;         // share of correct among those with a known outcome
  std::optional<double> length_mean;      // tokens, or bytes of text if tokens are unknown
  std::optional<double> surprisal_mean;   // -logprob / tokens in nats, an estimate of the entropy
  std::optional<double> similarity;       // mean over the groups with texts of room_words or more
};

struct PromptSummary {
  std::string prompt_id;
  SeenPrompt record;
};

struct Report {
  CollapseCounts counts;
  Tally all;
  std::int64_t completions = 0;
  std::int64_t rounding_only = 0;
  std::int64_t near_collapse = 0;
  std::int64_t with_history = 0;
  double observed_acr = 0;  // over groups with a history
  ExpectedRate expected;    // over groups with a history
  // The visits predict which of these groups are constant, or the excess is significant. If not,
  // the expected rate is that of the groups that the difficulty was fitted to, and its agreement
  // with the observed one says nothing.
  bool expected_informs = false;
  Excess excess;                   // of the observed rate over the expected one
  std::int64_t history_steps = 0;  // CauseRules::history_steps
  // Sources of which no completion was ever right, with their completions.
  std::map<std::string, std::int64_t> never_right;
  double acr_100 = 0;
  double sigma_acr = 0;
  bool lengths_are_tokens = false;
  bool has_verdicts = false;  // something says of a completion whether it is right
  std::vector<StepPoint> steps;
  std::map<std::string, Tally> sources;
  std::map<std::string, Tally> samplers;
  std::vector<CollapsedGroup> examples;      // sorted by cause, the first kExamples of each
  std::vector<PromptSummary> worst_prompts;  // those with at least two groups without a signal
  TruthCounts truth;
  TurnCredit credit;
  std::int64_t credit_episodes = 0;    // CauseRules::credit_episodes
  std::int64_t misjudged_sources = 0;  // PostMortem::Finish
  RemedyReport remedies;

  bool prompts_left_out = false;  // there were more than RunHistory::kMaxPrompts prompts
};

class PostMortem {
 public:
  static constexpr std::size_t kExamples = 100;
  static constexpr std::size_t kWorstPrompts = 20;

  // Passes every group without a signal, and its cause, to `on_collapsed`.
  PostMortem(const CauseRules& rules, std::function<void(const CollapsedGroup&)> on_collapsed);

  // Adds all groups of a step. Steps must increase. kInvalidArgument if no estimator accepts a
  // group.
  Status Add(const std::vector<GroupFacts>& groups);

  // Returns the report of a run in which the verifiers of `misjudged_sources` data sources fail on
  // answers of known verdict.
  Report Finish(std::int64_t misjudged_sources = 0);

 private:
  std::optional<Cause> Classify(const GroupFacts& group, const GroupContext& context,
                                StepPoint& point);
  void AddExpectedAcr(const std::vector<GroupFacts>& groups, StepPoint& point);

  const CauseRules rules_;
  const std::function<void(const CollapsedGroup&)> on_collapsed_;
  RunHistory run_history_;
  Remedies remedies_;
  PairedGain history_gain_;
  std::map<std::int64_t, std::int64_t> sizes_;  // number of groups by size
  Report report_;
  CauseCounts shown_{};
};

// Compares the observed rate with the one that difficulty predicts, in one line. Pure.
std::string DescribeExpected(const Report& report);

// Advises what to do next: the causes that are the most frequent of late first, each with its cost
// and its fix. Returns sentences, the most important first. Pure. A report without problems gives
// one sentence.
std::vector<std::string> NextSteps(const Report& report);

}  // namespace buttress
