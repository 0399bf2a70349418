#include "lib/explain/remedies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/rl/advantage/advantage.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

// The columns of a step.
AdvantageInput ColumnsOf(std::span<const GroupFacts> groups) {
  AdvantageInput columns;
  columns.group_offsets = {0};
  bool outcomes_known = true;
  for (const GroupFacts& group : groups) {
    for (const CompletionFacts& c : group.completions) {
      columns.rewards.push_back(c.shaped_reward);
      columns.raw_rewards.push_back(c.deciding_reward);
      columns.outcomes.push_back(c.outcome);
      columns.lengths.push_back(c.tokens.value_or(1));
      outcomes_known = outcomes_known && c.outcome != Outcome::kUnspecified;
    }
    columns.group_offsets.push_back(static_cast<std::int32_t>(columns.rewards.size()));
  }
  if (outcomes_known) return columns;
  // If only some outcomes are known, the rewards decide, and an unscorable completion has none.
  for (std::size_t i = 0; i < columns.outcomes.size(); ++i) {
    if (columns.outcomes[i] == Outcome::kUnscorable)
      columns.raw_rewards[i] = std::numeric_limits<double>::quiet_NaN();
  }
  columns.outcomes.clear();
  return columns;
}

EstimatorRemedy RemedyOf(Estimator estimator) {
  EstimatorRemedy remedy;
  remedy.name = ChoiceName(estimator);
  remedy.options.advantage = estimator;
  remedy.setting = "run.algorithm.advantage=" + remedy.name;
  return remedy;
}

void Count(const AdvantageInput& input, const AdvantageOutput& out, EstimatorRemedy& remedy) {
  for (std::size_t k = 0; k < input.groups(); ++k) {
    bool any = false;
    double sum = 0;
    for (auto row = input.group_offsets[k]; row < input.group_offsets[k + 1]; ++row) {
      const double advantage = out.advantages[static_cast<std::size_t>(row)];
      any = any || advantage != 0;
      remedy.sum_absolute += std::abs(advantage);
      sum += advantage;
    }
    const bool right = input.classes[k] == CollapseClass::kAllCorrect;
    if (right || input.classes[k] == CollapseClass::kAllWrong) {
      ++remedy.constant;
      remedy.sum_push +=
          (right ? sum : -sum) / (input.group_offsets[k + 1] - input.group_offsets[k]);
    }
    remedy.with_advantage += any ? 1 : 0;
    remedy.collapsed_with_advantage += any && input.classes[k] != CollapseClass::kMixed ? 1 : 0;
    remedy.virtual_groups += out.decisions[k].injected ? 1 : 0;
  }
}

}  // namespace

double EstimatorRemedy::push() const {
  constexpr double kRounding = 1e-9;
  const double mean = constant == 0 ? 0.0 : sum_push / static_cast<double>(constant);
  return std::abs(mean) < kRounding ? 0.0 : mean;
}

Remedies::Remedies() {
  report_.estimators.push_back(RemedyOf(Estimator::kGrpo));
  for (const AvspoMode mode :
       {AvspoMode::kOpposite, AvspoMode::kLadder, AvspoMode::kPrior, AvspoMode::kNoise}) {
    EstimatorRemedy& remedy = report_.estimators.emplace_back(RemedyOf(Estimator::kAvspo));
    remedy.name += ", mode " + std::string(ChoiceName(mode));
    remedy.options.avspo.mode = mode;
    remedy.setting += " run.algorithm.avspo.mode=" + std::string(ChoiceName(mode));
  }
  report_.estimators.push_back(RemedyOf(Estimator::kNgrpo));
  report_.estimators.push_back(RemedyOf(Estimator::kReinforcePp));
}

Status Remedies::Add(std::int64_t step, std::span<const GroupFacts> groups,
                     std::span<const PromptHistory> history, std::span<const int> last_constant) {
  AdvantageInput input = ColumnsOf(groups);
  for (const GroupFacts& group : groups) input.classes.push_back(group.collapse());
  input.history.assign(history.begin(), history.end());
  input.collapse =
      MakeCollapseSnapshot(input.raw_rewards, input.outcomes, input.group_offsets, history);
  input.collapse.step = {};
  for (const CollapseClass collapse : input.classes) input.collapse.step.Add(collapse);
  cumulative_.Add(input.collapse.step);
  input.collapse.cumulative = cumulative_;
  const double acr = input.collapse.step.acr();
  input.collapse.acr_ema = acr_ema_.value_or(acr);
  if (input.collapse.step.constant() + input.collapse.step.mixed > 0) {
    acr_ema_ = acr_ema_ ? kAcrEmaDecay * *acr_ema_ + (1 - kAcrEmaDecay) * acr : acr;
  }
  input.key = AdvantageKey(1, step);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    recent_.Add(static_cast<std::uint64_t>(step), groups[k].source, input.classes[k]);
  }
  input.collapse.sources = recent_.At(static_cast<std::uint64_t>(step));
  for (const GroupFacts& group : groups) {
    const auto source =
        std::ranges::lower_bound(input.collapse.sources, group.source, {}, &SourceCollapse::source);
    input.sources.push_back(static_cast<std::int32_t>(source - input.collapse.sources.begin()));
  }
  for (EstimatorRemedy& remedy : report_.estimators) {
    input.gate = remedy.gate;
    const Result<AdvantageOutput> out = ComputeAdvantages(input, remedy.options);
    if (!out.ok())
      return out.status().Annotate("step " + std::to_string(step) + ", " + remedy.name);
    remedy.gate = out->next_gate;
    Count(input, *out, remedy);
  }
  for (std::size_t k = 0; k < groups.size(); ++k) {
    report_.completions += static_cast<std::int64_t>(groups[k].completions.size());
    if (last_constant[k] < 0) continue;
    ++report_.skip.visits;
    if (last_constant[k] == 0) continue;
    ++report_.skip.skipped;
    report_.skip.rightly += input.classes[k] == CollapseClass::kMixed ? 0 : 1;
  }
  report_.groups += static_cast<std::int64_t>(groups.size());
  return OkStatus();
}

RemedyReport Remedies::Finish(std::int64_t size,
                              const std::map<std::string, SourceDifficulty>& sources) const {
  RemedyReport report = report_;
  report.size = size;
  std::vector<SourceDifficulty> all;
  for (const auto& [name, source] : sources) {
    all.push_back(source);
    if (sources.size() > 1) report.source_sizes[name] = CompareSizes({source}, size);
  }
  report.sizes = CompareSizes(all, size);
  const double acr = cumulative_.acr();
  report.draws_for_full_batch = acr < 1 ? 1 / (1 - acr) : std::numeric_limits<double>::infinity();
  for (EstimatorRemedy& remedy : report.estimators) {
    if (size < 2) continue;
    for (std::size_t i = 0; i < remedy.weights.size(); ++i) {
      const auto moments = MomentsOf(kWeightRates[i], static_cast<int>(size), remedy.options);
      if (moments) remedy.weights[i] = moments->weight;
    }
    remedy.signal_per_token = RelativeSignal(all, size, remedy.options);
  }
  std::stable_sort(report.estimators.begin() + 1, report.estimators.end(),
                   [](const EstimatorRemedy& a, const EstimatorRemedy& b) {
                     return a.signal_per_token > b.signal_per_token;
                   });
  return report;
}

}  // namespace buttress
