// The report of `buttress explain`, collected step by step: rates, causes with evidence, trends,
// and what remedies would have changed.
//
//   for each step, in order:  PostMortem::Add(groups)  ->  every collapsed group, with its cause,
//   to `on_collapsed` PostMortem::Finish()      ->  Report
//
// Memory: a StepPoint a step, kExamples groups a cause, and RunMemory's bounds. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/explain/beta_fit.h"
#include "lib/explain/cause.h"
#include "lib/explain/facts.h"
#include "lib/explain/remedies.h"
#include "lib/explain/run_memory.h"
#include "lib/rl/acr.h"

namespace buttress {

using CauseCounts = std::array<std::int64_t, kCauses>;

struct CollapsedGroup {
  std::int64_t step = 0;
  std::string prompt_id;
  std::string source;
  std::string sampler;
  std::string where;
  CollapseClass collapse = CollapseClass::kUnscorable;  // mixed: by rounding only
  Diagnosis diagnosis;
};

// One step, or what stands for one.
struct StepPoint {
  std::int64_t step = 0;
  CollapseCounts counts;
  std::int64_t near_collapse = 0;
  std::int64_t rounding_only = 0;  // groups mixed by rounding only; `counts` calls them mixed
  CauseCounts causes{};
  // Over groups whose prompt has a history: their ACR and the one that the histories let expect.
  std::int64_t with_history = 0;
  double observed_acr = 0;
  double expected_acr = 0;
  std::int64_t completions = 0;
  std::int64_t truncated = 0;
  double reward_mean = 0;                // raw, over scorable completions
  std::optional<double> length_mean;     // tokens, else bytes of text
  std::optional<double> surprisal_mean;  // -logprob / tokens, nats: an estimate of the entropy
  std::optional<double> similarity;      // mean over the groups whose texts have room
};

struct Tally {
  std::int64_t groups = 0;
  std::int64_t collapsed = 0;  // by rounding too
  CauseCounts causes{};
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
  double expected_acr = 0;
  double acr_100 = 0;
  double sigma_acr = 0;
  bool lengths_are_tokens = false;
  std::vector<StepPoint> steps;
  std::map<std::string, Tally> sources;
  std::map<std::string, Tally> samplers;
  std::vector<CollapsedGroup> examples;      // by cause, the first kExamples of each
  std::vector<PromptSummary> worst_prompts;  // at least two groups without a signal, the most first
  RemedyReport remedies;
  bool prompts_left_out = false;  // more prompts than are remembered
};

class PostMortem {
 public:
  static constexpr std::size_t kExamples = 100;
  static constexpr std::size_t kWorstPrompts = 20;

  PostMortem(const CauseRules& rules, std::function<void(const CollapsedGroup&)> on_collapsed);

  // All groups of a step. Steps rise. kInvalidArgument: a group that no estimator accepts.
  Status Add(const std::vector<GroupFacts>& groups);

  Report Finish();

 private:
  std::optional<Cause> Judge(const GroupFacts& group, const GroupContext& context,
                             StepPoint& point);
  void Expect(const std::vector<GroupFacts>& groups, const std::vector<PromptHistory>& history,
              StepPoint& point) const;

  const CauseRules rules_;
  const std::function<void(const CollapsedGroup&)> on_collapsed_;
  RunMemory memory_;
  Remedies remedies_;
  BetaFit fit_;
  std::map<std::int64_t, std::int64_t> sizes_;  // of groups, how often
  Report report_;
  CauseCounts shown_{};
};

}  // namespace buttress
