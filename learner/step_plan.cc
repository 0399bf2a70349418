#include "learner/step_plan.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lib/rl/advantage/advantage.h"
#include "lib/rl/advantage/overlong.h"
#include "lib/rl/loss/aggregation.h"
#include "lib/rl/loss/loss_table.h"
#include "lib/rl/placement.h"

namespace buttress {
namespace {

// The batch as flat lists over N completions.
struct FlatBatch {
  std::vector<double> rewards, raw_rewards, components;
  std::vector<Outcome> outcomes;
  std::vector<Outcome> trained_outcomes;      // unscorable where a group is masked
  std::vector<std::int32_t> lengths;          // 0 for the unscorable
  std::vector<std::int32_t> trained_lengths;  // 0 for the masked and the filtered too
  std::int64_t overlong_filtered = 0;
  CollapseCounts planned;  // classes of the plan's groups
  CollapseCounts trained;  // the same with masked groups as unscorable
  std::vector<std::int32_t> group_offsets = {0};
  std::vector<PromptHistory> history;
};

template <class T>
void Append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// [N, C]. A group without components has nothing scorable, so zeros may stand for them. Empty where
// the rewards of the groups' data sources have different numbers of parts: an estimator that reads
// components says that it needs them.
std::vector<double> FlatComponents(const BatchPlan& batch) {
  std::size_t width = 0;
  for (const PlannedGroup& group : batch.groups) {
    const std::size_t of_group = group.components.size() / group.rewards.size();
    if (of_group != 0 && width != 0 && of_group != width) return {};
    width = std::max(width, of_group);
  }
  std::vector<double> components;
  for (const PlannedGroup& group : batch.groups) {
    const std::size_t end = components.size() + group.rewards.size() * width;
    Append(components, group.components);
    components.resize(end, 0.0);
  }
  return components;
}

// Rewards get their soft overlong punishment, raw rewards stay.
FlatBatch Flatten(const BatchPlan& batch, const StepPlanOptions& options) {
  const OverlongConfig& overlong = options.algorithm.overlong;
  FlatBatch flat;
  for (const PlannedGroup& group : batch.groups) {
    const CollapseClass collapse = ClassifyGroup(group.raw_rewards, group.outcomes);
    const bool masked = options.mask_zero_variance && collapse != CollapseClass::kMixed;
    flat.planned.Add(collapse);
    flat.trained.Add(masked ? CollapseClass::kUnscorable : collapse);
    const std::size_t first = flat.rewards.size();
    Append(flat.rewards, group.rewards);
    Append(flat.raw_rewards, group.raw_rewards);
    Append(flat.outcomes, group.outcomes);
    for (std::size_t i = 0; i < group.lengths.size(); ++i) {
      flat.lengths.push_back(group.outcomes[i] == Outcome::kUnscorable ? 0 : group.lengths[i]);
      const bool filtered = overlong.filter && group.truncated[i] && flat.lengths.back() > 0;
      flat.overlong_filtered += filtered ? 1 : 0;
      flat.trained_lengths.push_back(masked || filtered ? 0 : flat.lengths.back());
      flat.rewards[first + i] += OverlongPenalty(group.total_lengths[i], options.overlong_length,
                                                 overlong.cache, overlong.penalty);
      flat.trained_outcomes.push_back(masked ? Outcome::kUnscorable : group.outcomes[i]);
    }
    flat.group_offsets.push_back(static_cast<std::int32_t>(flat.rewards.size()));
    flat.history.push_back(group.history);
  }
  flat.components = FlatComponents(batch);
  return flat;
}

// The plan's groups are among those that the snapshot counts; the others were replaced.
Status CheckCounts(const BatchPlan& batch, const FlatBatch& flat) {
  const CollapseCounts& drawn = batch.collapse.step;
  const CollapseCounts& planned = flat.planned;
  const bool adds_up = drawn.constant() + drawn.mixed + drawn.unscorable == drawn.groups;
  if (adds_up && planned.all_correct <= drawn.all_correct && planned.all_wrong <= drawn.all_wrong &&
      planned.mixed == drawn.mixed && planned.other_constant <= drawn.other_constant &&
      planned.unscorable <= drawn.unscorable) {
    return OkStatus();
  }
  return InvalidArgument(
      "collapse.step counts " + std::to_string(drawn.constant()) + " constant of " +
      std::to_string(drawn.groups) + " groups; a recount of the batch gives " +
      std::to_string(planned.constant()) + " of " + std::to_string(planned.groups));
}

Result<Placement> Place(const BatchPlan& batch, const FlatBatch& flat,
                        const AdvantageOutput& advantages, const StepPlanOptions& options) {
  std::vector<CompletionLoad> loads;
  for (const PlannedGroup& group : batch.groups) {
    for (std::size_t i = 0; i < group.lengths.size(); ++i) {
      const std::size_t row = loads.size();
      loads.push_back({group.prompt_tokens, group.total_lengths[i], flat.trained_lengths[row],
                       flat.trained_outcomes[row] != Outcome::kUnscorable,
                       advantages.has_gradient(row)});
    }
  }
  PlacementOptions pack;
  pack.ranks = options.ranks;
  pack.micro_batch_tokens = options.micro_batch_tokens;
  pack.run_zero_advantage_groups = ZeroAdvantageHasGradient(options.algorithm);
  return PlaceGroups(loads, flat.group_offsets, pack);
}

void SummarizeAges(const BatchPlan& batch, BatchSummary& summary) {
  std::int64_t sum = 0;
  for (const PlannedGroup& group : batch.groups) {
    const std::int64_t age = std::max<std::int64_t>(
        0, batch.step - 1 - static_cast<std::int64_t>(group.oldest_version.step));
    sum += age;
    summary.age_max = std::max(summary.age_max, age);
  }
  summary.age_mean = batch.groups.empty()
                         ? 0
                         : static_cast<double>(sum) / static_cast<double>(batch.groups.size());
}

BatchSummary Summarize(const BatchPlan& batch, const FlatBatch& flat,
                       const AdvantageOutput& advantages, const Placement& placement) {
  BatchSummary summary;
  summary.collapse = batch.collapse.step;
  summary.groups_replaced = batch.collapse.step.groups - flat.planned.groups;
  summary.groups_masked = flat.trained.unscorable - flat.planned.unscorable;
  summary.overlong_filtered = flat.overlong_filtered;
  std::int64_t scorable = 0, correct = 0, judged = 0;
  double rewards = 0;
  for (std::size_t row = 0; row < flat.rewards.size(); ++row) {
    if (flat.outcomes[row] == Outcome::kUnscorable) {
      ++summary.unscorable;
      continue;
    }
    ++scorable;
    rewards += flat.rewards[row];
    correct += flat.outcomes[row] == Outcome::kCorrect ? 1 : 0;
    judged +=
        flat.outcomes[row] == Outcome::kCorrect || flat.outcomes[row] == Outcome::kWrong ? 1 : 0;
    summary.tokens += flat.trained_lengths[row];
    if (!advantages.has_gradient(row)) summary.zero_advantage_tokens += flat.trained_lengths[row];
  }
  if (scorable > 0) summary.reward_mean = rewards / static_cast<double>(scorable);
  if (judged > 0) summary.accuracy = static_cast<double>(correct) / static_cast<double>(judged);
  for (const PlannedGroup& group : batch.groups) {
    for (const std::int32_t length : group.total_lengths) summary.generated_tokens += length;
  }
  for (const std::int32_t rank : placement.rank_of_group)
    summary.groups_trained += rank >= 0 ? 1 : 0;
  double weights = 0;
  for (const VirtualDecision& decision : advantages.decisions) {
    if (!decision.injected) continue;
    ++summary.virtual_groups;
    weights += decision.weight;
  }
  summary.gate = advantages.gate;
  summary.next_gate = advantages.next_gate;
  if (summary.virtual_groups > 0)
    summary.virtual_weight = weights / static_cast<double>(summary.virtual_groups);
  SummarizeAges(batch, summary);
  return summary;
}

}  // namespace

StepPlanOptions MakeStepPlanOptions(const RunSettings& run, const LearnerConfig& learner,
                                    int ranks) {
  StepPlanOptions options;
  options.algorithm = run.algorithm;
  options.mask_zero_variance = run.batch.zero_variance == ZeroVariancePolicy::kMask ||
                               run.batch.zero_variance == ZeroVariancePolicy::kResample;
  options.length_norm = run.algorithm.length_norm > 0
                            ? run.algorithm.length_norm
                            : static_cast<double>(run.sampling.max_tokens);
  const std::int64_t overlong = run.algorithm.overlong.length;
  options.overlong_length = overlong > 0 ? overlong : run.sampling.max_tokens;
  options.seed = run.seed;
  options.ranks = ranks;
  options.micro_batch_tokens = learner.micro_batch_tokens;
  return options;
}

Result<StepPlan> MakeStepPlan(const BatchPlan& batch, const StepPlanOptions& options,
                              const GateState& gate, BatchSummary& summary) {
  const FlatBatch flat = Flatten(batch, options);
  BUTTRESS_RETURN_IF_ERROR(CheckCounts(batch, flat));
  AdvantageInput input;
  input.rewards = flat.rewards;
  input.raw_rewards = flat.raw_rewards;
  input.outcomes = flat.trained_outcomes;
  input.components = flat.components;
  input.lengths = flat.trained_lengths;
  input.group_offsets = flat.group_offsets;
  input.history = flat.history;
  input.collapse = batch.collapse;
  input.collapse.step = flat.trained;
  input.gate = gate;
  input.key = AdvantageKey(options.seed, batch.step);
  BUTTRESS_ASSIGN_OR_RETURN(AdvantageOutput advantages,
                            ComputeAdvantages(input, options.algorithm));
  BUTTRESS_ASSIGN_OR_RETURN(const Placement placement, Place(batch, flat, advantages, options));
  const Aggregation aggregation = options.algorithm.aggregation;
  summary = Summarize(batch, flat, advantages, placement);

  StepPlan plan;
  plan.step = batch.step;
  plan.rounds = placement.rounds;
  for (const PlannedGroup& group : batch.groups) plan.group_ids.push_back(group.group_id);
  plan.group_offsets = flat.group_offsets;
  plan.rank_of_group = placement.rank_of_group;
  // Groups that are not run are read all the same, for the statistics.
  for (std::size_t k = 0; k < plan.rank_of_group.size(); ++k) {
    if (plan.rank_of_group[k] < 0)
      plan.rank_of_group[k] = static_cast<std::int32_t>(k) % options.ranks;
  }
  plan.micro_batch.assign(flat.rewards.size(), -1);
  for (const auto& of_rank : placement.micro_batches) {
    for (std::size_t m = 0; m < of_rank.size(); ++m) {
      for (const std::int32_t row : of_rank[m].completions)
        plan.micro_batch[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(m);
    }
  }
  plan.lengths = flat.lengths;
  plan.token_weights = TokenWeights(aggregation, flat.trained_lengths, flat.group_offsets,
                                    CountDenominators(flat.trained_lengths, flat.group_offsets),
                                    options.length_norm);
  summary.gradient = PolicyGradientMass(advantages.advantages, flat.rewards, plan.token_weights,
                                        flat.trained_lengths, flat.group_offsets,
                                        advantages.collapse, advantages.decisions);
  plan.advantages = std::move(advantages.advantages);
  plan.entropy_scale = std::move(advantages.entropy_scale);
  return plan;
}

namespace {

template <class T>
void PutNumber(std::string& bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void PutList(std::string& bytes, const std::vector<T>& list) {
  PutNumber(bytes, static_cast<std::uint64_t>(list.size()));
  bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
}

template <class T>
bool TakeNumber(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

template <class T>
bool TakeList(std::string_view& bytes, std::vector<T>& list) {
  std::uint64_t size = 0;
  if (!TakeNumber(bytes, size) || size > bytes.size() / sizeof(T)) return false;
  list.resize(size);
  std::memcpy(list.data(), bytes.data(), size * sizeof(T));
  bytes.remove_prefix(size * sizeof(T));
  return true;
}

}  // namespace

std::string EncodeStepPlan(const StepPlan& plan) {
  std::string bytes;
  PutNumber(bytes, plan.step);
  PutNumber(bytes, plan.rounds);
  PutList(bytes, plan.group_ids);
  PutList(bytes, plan.group_offsets);
  PutList(bytes, plan.rank_of_group);
  PutList(bytes, plan.lengths);
  PutList(bytes, plan.micro_batch);
  PutList(bytes, plan.advantages);
  PutList(bytes, plan.entropy_scale);
  PutList(bytes, plan.token_weights);
  PutNumber(bytes, plan.entropy_coef);
  return bytes;
}

Result<StepPlan> DecodeStepPlan(std::string_view bytes) {
  StepPlan plan;
  const bool whole = TakeNumber(bytes, plan.step) && TakeNumber(bytes, plan.rounds) &&
                     TakeList(bytes, plan.group_ids) && TakeList(bytes, plan.group_offsets) &&
                     TakeList(bytes, plan.rank_of_group) && TakeList(bytes, plan.lengths) &&
                     TakeList(bytes, plan.micro_batch) && TakeList(bytes, plan.advantages) &&
                     TakeList(bytes, plan.entropy_scale) && TakeList(bytes, plan.token_weights) &&
                     TakeNumber(bytes, plan.entropy_coef);
  const std::size_t rows = plan.lengths.size();
  if (whole && bytes.empty() && plan.group_offsets.size() == plan.group_ids.size() + 1 &&
      plan.rank_of_group.size() == plan.group_ids.size() && plan.micro_batch.size() == rows &&
      plan.advantages.size() == rows && plan.token_weights.size() == rows &&
      (plan.entropy_scale.empty() || plan.entropy_scale.size() == rows)) {
    return plan;
  }
  return DataLoss("the step's plan from rank 0 is not one; are all ranks of one build?");
}

}  // namespace buttress
