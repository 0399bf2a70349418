#include "lib/rl/assignment.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "lib/base/report/check.h"
#include "lib/config/token_bounds.h"
#include "lib/experience/episodes.h"
#include "lib/rl/collapse/collapse_metrics.h"
#include "lib/rl/episode_summary.h"
#include "lib/rl/loss/aggregation.h"
#include "lib/rl/loss/loss_table.h"
#include "lib/rl/placement.h"
#include "lib/rl/statistics.h"
#include "lib/rl/trained_rows.h"

namespace buttress {
namespace {

// The plan's groups are among the groups that the snapshot counts; the others were replaced, those
// without a signal by dynamic sampling and any that an operator dropped.
Status CheckCounts(const Plan& plan, const CollapseCounts& planned) {
  const CollapseCounts& drawn = plan.collapse.step;
  const bool adds_up = drawn.constant() + drawn.mixed + drawn.unscorable == drawn.groups;
  if (adds_up && planned.all_correct <= drawn.all_correct && planned.all_wrong <= drawn.all_wrong &&
      planned.mixed <= drawn.mixed && planned.other_constant <= drawn.other_constant &&
      planned.unscorable <= drawn.unscorable) {
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("collapse.step counts {} constant of {} groups; the plan has {} of {}",
                  drawn.constant(), drawn.groups, planned.constant(), planned.groups));
}

Placement Place(const Plan& plan, const TrainedRows& trained, const AdvantageOutput& advantages,
                std::span<const std::int32_t> updates, const AssignmentOptions& options) {
  std::vector<CompletionLoad> loads;
  std::size_t k = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    int i = 0;
    for (const std::int32_t tokens : group->lengths()) {
      const std::size_t row = loads.size();
      loads.push_back({group->prompt_tokens(), tokens, trained.lengths[row],
                       IsScorable(*group, i++) && !trained.masked[k],
                       trained.has_gradient(advantages, row), updates[row]});
    }
    ++k;
  }
  PlacementOptions placement;
  placement.ranks = options.ranks;
  placement.updates = static_cast<std::int32_t>(options.run.batch.updates);
  placement.micro_batch_tokens = options.micro_batch_tokens;
  placement.bound = options.bound;
  placement.run_zero_advantage_groups = ZeroAdvantageHasGradient(options.run.algorithm);
  return PlaceGroups(loads, plan.offsets(), placement);
}

double Number(std::int64_t count) { return static_cast<double>(count); }

double Ratio(double part, double whole) { return BatchMeasurements::Ratio(part, whole); }

void SummarizeAges(const Plan& plan, BatchSummary& summary) {
  double sum = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    const std::uint64_t oldest = group->versions_size() == 0 ? 0 : group->versions(0).step();
    const double age = Number(std::max<std::int64_t>(
        0, static_cast<std::int64_t>(plan.step) - 1 - static_cast<std::int64_t>(oldest)));
    sum += age;
    summary.age_max = std::max(summary.age_max, age);
  }
  if (!plan.groups.empty()) summary.age_mean = sum / static_cast<double>(plan.groups.size());
}

void SummarizeCollapse(const CollapseSnapshot& collapse, BatchSummary& summary) {
  const CollapseCounts& counts = collapse.step;
  const double comparable = Number(counts.constant() + counts.mixed);
  summary.acr = Ratio(Number(counts.constant()), comparable);
  summary.acr_all_correct = Ratio(Number(counts.all_correct), comparable);
  summary.acr_all_wrong = Ratio(Number(counts.all_wrong), comparable);
  summary.acr_other = Ratio(Number(counts.other_constant), comparable);
  const ExpectedRate expected = ExpectedAcr(collapse);
  summary.acr_expected = expected.rate;
  summary.acr_expected_high = expected.high;
  summary.acr_excess = summary.acr - expected.rate;
  summary.groups = Number(counts.groups);
  summary.groups_informative = Number(counts.mixed);
  summary.unscorable_groups = Number(counts.unscorable);
}

// Every group stands for 1 / probability prompts whose turn came, of which the others were passed
// over (Horvitz and Thompson 1952). What was replaced is not in the plan, so that nothing is known
// then.
void SummarizeDataset(const Plan& plan, BatchSummary& summary) {
  double constant = 0, comparable = 0;
  bool weighted = false;
  for (const GroupHeadPtr& group : plan.groups) {
    const CollapseClass collapse = ClassOf(*group);
    if (collapse == CollapseClass::kUnscorable) continue;
    const double prompts = 1 / DrawProbabilityOf(*group);
    weighted = weighted || prompts > 1;
    comparable += prompts;
    constant += IsConstant(collapse) ? prompts : 0;
  }
  const bool whole = plan.collapse.step.groups == static_cast<std::int64_t>(plan.groups.size());
  if (weighted && whole) summary.acr_dataset = Ratio(constant, comparable);
}

std::int64_t CountWithoutAdvantage(std::span<const std::int32_t> offsets,
                                   const AdvantageOutput& advantages) {
  std::int64_t groups = 0;
  for (std::size_t k = 0; k + 1 < offsets.size(); ++k) {
    bool any = false;
    for (auto row = offsets[k]; row < offsets[k + 1]; ++row)
      any = any || advantages.has_gradient(static_cast<std::size_t>(row));
    groups += any ? 0 : 1;
  }
  return groups;
}

bool IsJudged(Outcome outcome) {
  return outcome == Outcome::kCorrect || outcome == Outcome::kWrong;
}

// Adds the components of a scorable completion, by name: the data sources may have different ones.
void AddComponents(const v1::GroupHead& group, std::size_t i, BatchSummary& summary) {
  const std::span<const double> values = ComponentsOf(group, i);
  for (std::size_t c = 0; c < values.size(); ++c) {
    const std::string& name = group.component_names(static_cast<int>(c));
    auto found = std::ranges::find(summary.components, name, &ComponentMeasurements::name);
    if (found == summary.components.end())
      found = summary.components.insert(found, ComponentMeasurements{name});
    found->raw_reward += values[c];
    found->scorable += 1;
  }
}

void SummarizeRows(const Plan& plan, const TrainedRows& trained, const AdvantageOutput& advantages,
                   BatchSummary& summary) {
  double scorable = 0, correct = 0, judged = 0, shaped = 0, truncated = 0;
  std::vector<double> raw;
  std::size_t row = 0;
  for (const GroupHeadPtr& group : plan.groups) {
    for (std::size_t i = 0; i < CompletionsOf(*group); ++i, ++row) {
      const bool root = IsRoot(*group, i);
      summary.completions += root ? 1 : 0;
      summary.generated_tokens += SampledLengthsOf(*group)[static_cast<int>(i)];
      truncated += root && IsTruncated(*group, i) ? 1 : 0;
      const Outcome outcome = OutcomeOf(*group, i);
      if (outcome == Outcome::kUnscorable) {
        summary.unscorable += root ? 1 : 0;
        continue;
      }
      summary.tokens += trained.lengths[row];
      if (!trained.has_gradient(advantages, row))
        summary.zero_advantage_tokens += trained.lengths[row];
      if (!root) continue;
      ++scorable;
      raw.push_back(RewardsOf(*group)[i]);
      shaped += trained.rewards[ToIndex(trained.episodes.of_rows[row])];
      AddComponents(*group, i, summary);
      correct += outcome == Outcome::kCorrect ? 1 : 0;
      judged += IsJudged(outcome) ? 1 : 0;
    }
  }
  if (!raw.empty()) {
    summary.raw_reward_mean = Mean(raw);
    summary.raw_reward_std = std::sqrt(SumSquares(raw, Mean(raw)) / scorable);
  }
  summary.shaped_reward_mean = Ratio(shaped, scorable);
  summary.accuracy = Ratio(correct, judged);
  summary.truncated_share = Ratio(truncated, summary.completions);
  summary.length_mean = Ratio(summary.generated_tokens, summary.completions);
  summary.zero_advantage_share = Ratio(Number(summary.zero_advantage_tokens), summary.tokens);
}

// Measures the price: what was drawn against the groups of the plan that are not masked. Counts the
// groups that are one completion away from constant.
void SummarizeGroups(const Plan& plan, const TrainedRows& trained, BatchSummary& summary) {
  DrawnTotals kept;
  CollapseCounts counts;
  double near_collapse = 0;
  for (std::size_t k = 0; k < plan.groups.size(); ++k) {
    const v1::GroupHead& group = *plan.groups[k];
    const auto [raw_rewards, outcomes] = VerdictsOf(group);
    near_collapse += IsNearCollapse(raw_rewards, outcomes) ? 1 : 0;
    if (trained.masked[k]) continue;
    counts.Add(ClassOf(group));
    kept.Add(group);
  }
  summary.near_collapse =
      Ratio(near_collapse, Number(trained.planned.constant() + trained.planned.mixed));
  summary.drawn_tokens = Number(plan.drawn.tokens);
  summary.drawn_raw_reward_mean = Ratio(plan.drawn.raw_reward, Number(plan.drawn.scorable));
  summary.drawn_per_kept = Ratio(summary.drawn_tokens, Number(kept.tokens));
  if (plan.control) {
    summary.draw_factor = plan.control->factor;
    summary.expected_mixed = plan.control->expected.value_or(BatchMeasurements::kNotMeasured);
    summary.plan_mixed = plan.control->mixed;
  }
  summary.kept_groups = Number(counts.groups);
  summary.kept_tokens = Number(kept.tokens);
  summary.kept_raw_reward_mean = Ratio(kept.raw_reward, Number(kept.scorable));
  summary.kept_acr = Ratio(Number(counts.constant()), Number(counts.constant() + counts.mixed));
}

// What the plan and the gates say of each source.
std::vector<SourceMeasurements> SummarizeSources(const Plan& plan, const TrainedRows& trained,
                                                 const AdvantageOutput& advantages) {
  std::vector<SourceMeasurements> sources;
  for (std::size_t s = 0; s < plan.collapse.sources.size(); ++s) {
    const SourceCollapse& of = plan.collapse.sources[s];
    SourceMeasurements& source = sources.emplace_back();
    source.source = of.source;
    source.collapse = of.step;
    if (s >= advantages.source_gates.size() || !advantages.source_gates[s]) continue;
    source.gate_rate = advantages.source_gates[s]->rate;
    source.gate_threshold = advantages.source_gates[s]->threshold;
    source.gate_open = advantages.source_gates[s]->open ? 1 : 0;
  }
  for (std::size_t k = 0; k < trained.input.sources.size(); ++k) {
    SourceMeasurements& source = sources[static_cast<std::size_t>(trained.input.sources[k])];
    source.virtual_groups += advantages.decisions[k].injected ? 1 : 0;
    const v1::GroupHead& group = *plan.groups[k];
    for (std::size_t i = 0; i < CompletionsOf(group); ++i) {
      if (!IsScorable(group, i) || !IsRoot(group, i)) continue;
      const Outcome outcome = OutcomeOf(group, i);
      source.scorable += 1;
      source.raw_reward += RewardsOf(group)[i];
      source.correct += outcome == Outcome::kCorrect ? 1 : 0;
      source.judged += IsJudged(outcome) ? 1 : 0;
    }
  }
  return sources;
}

BatchSummary Summarize(const Plan& plan, const TrainedRows& trained,
                       const AdvantageOutput& advantages, const Placement& placement) {
  BatchSummary summary;
  SummarizeCollapse(plan.collapse, summary);
  SummarizeDataset(plan, summary);
  SummarizeRows(plan, trained, advantages, summary);
  SummarizeGroups(plan, trained, summary);
  SummarizeAges(plan, summary);
  SummarizeEpisodes(plan, summary);
  summary.sources = SummarizeSources(plan, trained, advantages);
  summary.plan_groups = trained.planned.groups;
  summary.groups_without_advantage = CountWithoutAdvantage(trained.input.group_offsets, advantages);
  summary.acr_effective =
      Ratio(Number(summary.groups_without_advantage), Number(summary.plan_groups));
  summary.groups_replaced = Number(plan.collapse.step.groups - trained.planned.groups);
  summary.groups_masked =
      Number(trained.input.collapse.step.unscorable - trained.planned.unscorable);
  summary.overlong_filtered = Number(trained.overlong_filtered);
  for (const std::int32_t rank : placement.rank_of_group)
    summary.groups_trained += rank >= 0 ? 1 : 0;
  for (const VirtualDecision& decision : advantages.decisions) {
    if (!decision.injected) continue;
    ++summary.virtual_groups;
    summary.virtual_weight += decision.weight;
  }
  if (summary.virtual_groups > 0) summary.virtual_weight /= summary.virtual_groups;
  if (advantages.gate) {
    summary.gate_rate = advantages.gate->rate;
    summary.gate_threshold = advantages.gate->threshold;
    summary.gate_open = advantages.gate->open ? 1 : 0;
  }
  summary.next_gate = advantages.next_gate;
  return summary;
}

// Fills who fetches and runs what.
void FillPlacement(const Placement& placement, int ranks, Assignment& out) {
  out.rank_of_group = placement.rank_of_group;
  // Groups that are not run are fetched all the same, for the statistics.
  for (std::size_t k = 0; k < out.rank_of_group.size(); ++k) {
    if (out.rank_of_group[k] < 0) out.rank_of_group[k] = static_cast<std::int32_t>(k) % ranks;
  }
  out.micro_batch.assign(out.lengths.size(), -1);
  for (const UpdatePlacement& update : placement.updates) {
    out.rounds.push_back(update.rounds);
    for (const auto& of_rank : update.micro_batches) {
      for (std::size_t m = 0; m < of_rank.size(); ++m) {
        for (const std::int32_t row : of_rank[m].completions)
          out.micro_batch[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(m);
      }
    }
  }
}

// Every update is a batch of its own: its denominators count its completions alone.
std::vector<double> WeightsOfUpdates(std::span<const std::int32_t> lengths,
                                     std::span<const std::int32_t> group_offsets,
                                     std::span<const std::int32_t> update,
                                     const AssignmentOptions& options) {
  const AlgorithmConfig& algorithm = options.run.algorithm;
  const double length_norm = algorithm.length_norm > 0
                                 ? algorithm.length_norm
                                 : static_cast<double>(MostBehindPrompt(options.run));
  std::vector<double> weights(lengths.size(), 0.0);
  for (std::int32_t u = 0; u < options.run.batch.updates; ++u) {
    std::vector<std::int32_t> own(lengths.begin(), lengths.end());
    for (std::size_t row = 0; row < own.size(); ++row) {
      if (update[row] != u) own[row] = 0;
    }
    const std::vector<double> of_update =
        TokenWeights(algorithm.aggregation, own, group_offsets,
                     CountDenominators(own, group_offsets), length_norm);
    for (std::size_t row = 0; row < own.size(); ++row) weights[row] += of_update[row];
  }
  return weights;
}

// What was drawn for the step and is in no loss: the trained tokens of masked groups, and all those
// of replaced ones, of which the plan has the totals alone.
LossDenominators LeftOutOfLoss(const Plan& plan, const TrainedRows& trained) {
  LossDenominators left_out;
  DrawnTotals planned;
  for (std::size_t k = 0; k < plan.groups.size(); ++k) {
    const v1::GroupHead& group = *plan.groups[k];
    planned.Add(group);
    if (!trained.masked[k]) continue;
    const std::vector<std::int32_t> rows = EpisodeOffsets(group);
    std::vector<std::int32_t> lengths;
    for (std::size_t e = 0; e + 1 < rows.size(); ++e) {
      lengths.push_back(std::accumulate(group.trained_lengths().begin() + rows[e],
                                        group.trained_lengths().begin() + rows[e + 1], 0));
    }
    const std::int32_t offsets[] = {0, static_cast<std::int32_t>(lengths.size())};
    const LossDenominators masked = CountDenominators(lengths, offsets);
    left_out.tokens += masked.tokens;
    left_out.completions += masked.completions;
    left_out.groups += masked.groups;
  }
  const CollapseCounts& drawn = plan.collapse.step;
  const auto add = [](std::int64_t of_drawn, std::int64_t of_planned, std::int64_t& sum) {
    sum += std::max<std::int64_t>(0, of_drawn - of_planned);
  };
  add(plan.drawn.tokens, planned.tokens, left_out.tokens);
  add(plan.drawn.scorable, planned.scorable, left_out.completions);
  add(drawn.constant() + drawn.mixed, trained.planned.constant() + trained.planned.mixed,
      left_out.groups);
  return left_out;
}

// Returns by what the weights are multiplied so that their denominators are all that was drawn. A
// step is as long then as it would be with the groups that have no signal, and not longer the fewer
// of the others there are.
double KeptShare(const Plan& plan, const TrainedRows& trained, Aggregation aggregation) {
  const LossDenominators kept =
      CountDenominators(trained.episodes.Sum(trained.lengths), trained.episodes.groups);
  const LossDenominators left_out = LeftOutOfLoss(plan, trained);
  const auto share = [](std::int64_t in, std::int64_t out) {
    return in == 0 ? 1.0 : Number(in) / Number(in + out);
  };
  switch (aggregation) {
    case Aggregation::kTokenMean:
      return share(kept.tokens, left_out.tokens);
    case Aggregation::kTokenSum:
      return 1;
    case Aggregation::kGroupTokenMean:
      return share(kept.groups, left_out.groups);
    case Aggregation::kSeqMeanTokenMean:
    case Aggregation::kSeqMeanTokenSum:
    case Aggregation::kSeqMeanTokenSumNorm:
      return share(kept.completions, left_out.completions);
  }
  return 1;
}

// Returns the weight of each trained token of the episodes, [E]. A group counts for all prompts
// that it was drawn in place of, against the denominator of what was drawn (docs/sampling.md).
std::vector<double> EpisodeWeights(const Plan& plan, const TrainedRows& trained,
                                   std::span<const std::int32_t> updates,
                                   const AssignmentOptions& options) {
  std::vector<double> weights = WeightsOfUpdates(trained.episodes.Sum(trained.lengths),
                                                 trained.episodes.groups, updates, options);
  if (options.masks_zero_variance() && options.run.batch.denominator == StepDenominator::kDrawn) {
    const double share = KeptShare(plan, trained, options.run.algorithm.aggregation);
    for (double& weight : weights) weight *= share;
  }
  for (std::size_t k = 0; options.run.data.selection.unbiased && k < plan.groups.size(); ++k) {
    for (double& weight : GroupRows(std::span(weights), trained.episodes.groups, k))
      weight /= DrawProbabilityOf(*plan.groups[k]);
  }
  return weights;
}

// The turns of an episode share its tokens evenly here, because a plan does not have their lengths.
GradientMass MassOf(const TrainedRows& trained, const AdvantageOutput& advantages,
                    const std::vector<double>& episode_weights) {
  std::vector<double> weights = episode_weights;
  if (!trained.units.turn_offsets.empty()) {
    const std::vector<std::int32_t> lengths = trained.episodes.Sum(trained.lengths);
    std::vector<double> turns(lengths.size(), 0.0);
    for (const std::int32_t e : trained.units.episodes) ++turns[ToIndex(e)];
    weights.clear();
    for (const std::int32_t e : trained.units.episodes)
      weights.push_back(episode_weights[ToIndex(e)] * lengths[ToIndex(e)] / turns[ToIndex(e)]);
  }
  return PolicyGradientMass(advantages.advantages, trained.input.rewards, weights,
                            trained.input.lengths, trained.input.group_offsets,
                            trained.input.classes, advantages.decisions);
}

// Gives the rows and turns what the estimator gave to the units.
void FillAdvantages(const TrainedRows& trained, AdvantageOutput advantages, Assignment& out) {
  if (trained.units.turn_offsets.empty()) {
    out.advantages = trained.episodes.ToRows(advantages.advantages);
    if (!advantages.entropy_scale.empty())
      out.entropy_scale = trained.episodes.ToRows(advantages.entropy_scale);
    return;
  }
  out.turn_offsets = trained.units.turn_offsets;
  out.turn_advantages = std::move(advantages.advantages);
  for (std::size_t row = 0; row + 1 < out.turn_offsets.size(); ++row) {
    const auto turns =
        GroupRows(std::span<const double>(out.turn_advantages), out.turn_offsets, row);
    out.advantages.push_back(turns.empty() ? 0 : Mean(turns));
  }
}

}  // namespace

double OverlongPenalty(std::int64_t tokens, std::int64_t length, std::int64_t cache,
                       double penalty) {
  BUTTRESS_CHECK(length >= cache && cache >= 0, "length >= cache >= 0");
  if (cache == 0) return 0;
  const std::int64_t beyond = std::clamp<std::int64_t>(tokens - (length - cache), 0, cache);
  return -penalty * static_cast<double>(beyond) / static_cast<double>(cache);
}

bool AssignmentOptions::masks_zero_variance() const {
  return run.batch.zero_variance == ZeroVariancePolicy::kMask ||
         run.batch.zero_variance == ZeroVariancePolicy::kResample;
}

std::int64_t AssignmentOptions::overlong_length() const {
  const std::int64_t length = run.algorithm.overlong.length;
  return length > 0 ? length : MostBehindPrompt(run);
}

Result<Assignment> AssignStep(const Plan& plan, const AssignmentOptions& options,
                              const GateState& gate, BatchSummary& summary,
                              std::span<const double> kl_penalties) {
  BUTTRESS_ASSIGN_OR_RETURN(TrainedRows trained, ApplyMasks(plan, kl_penalties, options));
  BUTTRESS_RETURN_IF_ERROR(CheckCounts(plan, trained.planned));
  trained.input.gate = gate;
  BUTTRESS_ASSIGN_OR_RETURN(AdvantageOutput advantages,
                            ComputeAdvantages(trained.input, options.run.algorithm));
  Assignment out;
  out.step = static_cast<std::int64_t>(plan.step);
  const std::vector<std::int32_t> updates =
      DrawMiniBatches(trained.episodes.groups, static_cast<std::int32_t>(options.run.batch.updates),
                      options.run.batch.mini_batch,
                      {MixSeed(options.run.seed, HashText("mini-batches")), plan.step});
  out.update_of_row = trained.episodes.ToRows(updates);
  const Placement placement = Place(plan, trained, advantages, out.update_of_row, options);
  summary = Summarize(plan, trained, advantages, placement);

  out.group_offsets = plan.offsets();
  for (const GroupHeadPtr& group : plan.groups) {
    out.group_ids.push_back(group->group_id());
    out.constant.push_back(IsConstant(ClassOf(*group)) ? 1 : 0);
    out.lengths.insert(out.lengths.end(), group->trained_lengths().begin(),
                       group->trained_lengths().end());
  }
  FillPlacement(placement, options.ranks, out);
  const std::vector<double> weights = EpisodeWeights(plan, trained, updates, options);
  out.token_weights = trained.episodes.ToRows(weights);
  for (std::size_t row = 0; row < out.token_weights.size(); ++row) {
    if (trained.lengths[row] == 0) out.token_weights[row] = 0;
  }
  summary.gradient = MassOf(trained, advantages, weights);
  FillAdvantages(trained, std::move(advantages), out);
  return out;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Assignment, step, rounds, group_ids, group_offsets,
                                   rank_of_group, constant, lengths, update_of_row, micro_batch,
                                   advantages, turn_offsets, turn_advantages, entropy_scale,
                                   token_weights, entropy_coef)

std::string EncodeAssignment(const Assignment& assignment) {
  std::string bytes;
  nlohmann::json::to_msgpack(assignment, bytes);
  return bytes;
}

Result<Assignment> DecodeAssignment(std::string_view bytes) {
  Assignment a;
  bool whole = true;
  try {
    nlohmann::json::from_msgpack(bytes).get_to(a);
  } catch (const nlohmann::json::exception&) {
    whole = false;
  }
  const std::size_t groups = a.group_ids.size();
  const std::size_t rows = a.lengths.size();
  if (whole && a.group_offsets.size() == groups + 1 && a.rank_of_group.size() == groups &&
      a.constant.size() == groups && a.update_of_row.size() == rows &&
      a.micro_batch.size() == rows && a.advantages.size() == rows &&
      a.token_weights.size() == rows &&
      (a.entropy_scale.empty() || a.entropy_scale.size() == rows) &&
      (a.turn_offsets.empty()
           ? a.turn_advantages.empty()
           : a.turn_offsets.size() == rows + 1 &&
                 CheckGroupOffsets(a.turn_offsets, a.turn_advantages.size()).ok()))
    return a;
  return DataLoss(
      "the broadcast of rank 0 is not an assignment; all ranks must run the same build");
}

}  // namespace buttress
