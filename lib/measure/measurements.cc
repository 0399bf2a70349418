#include "lib/measure/measurements.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace buttress {
namespace {

using M = StepMeasurements;
using enum Unit;
using enum Reduction;

constexpr Measurement kTable[] = {
    {"step", &M::step, kSteps, kLast, "Number of the step, from 1."},
    {"time_unix", &M::time_unix, kSeconds, kLast, "End of the step, Unix time."},

    {"raw_reward_mean", &M::raw_reward_mean, kNone, kMean,
     "Mean raw reward of the scorable completions: the weighted sum of the components, before "
     "shaping."},
    {"shaped_reward_mean", &M::shaped_reward_mean, kNone, kMean,
     "Mean shaped reward of the scorable completions: the raw reward after algorithm.overlong and "
     "algorithm.kl_in: reward, which the estimator normalises."},
    {"accuracy", &M::accuracy, kRatio, kMean,
     "Correct completions among the correct and the wrong ones."},
    {"acr", &M::acr, kRatio, kMean,
     "Advantage collapse rate: share of the comparable groups (constant or mixed) whose deciding "
     "rewards are all equal, of all groups drawn for the step. The deciding reward is the raw "
     "reward, in a weighted sum that of the first component that applies."},
    {"acr_all_correct", &M::acr_all_correct, kRatio, kMean,
     "Share of the comparable groups in which every completion is correct."},
    {"acr_all_wrong", &M::acr_all_wrong, kRatio, kMean,
     "Share of the comparable groups in which every completion is wrong."},
    {"acr_other", &M::acr_other, kRatio, kMean,
     "Share of the comparable groups that are constant in another way."},
    {"acr_effective", &M::acr_effective, kRatio, kMean,
     "Share of the groups of the batch whose completions all have advantage 0 after virtual "
     "samples, "
     "masks and replacement."},
    {"acr_expected", &M::acr_expected, kRatio, kMean,
     "The rate that the difficulty of the prompts gives, by the last groups of their sources."},
    {"acr_expected_high", &M::acr_expected_high, kRatio, kMean,
     "Upper end of the 95 % interval of acr around acr_expected."},
    {"acr_excess", &M::acr_excess, kRatio, kMean, "acr - acr_expected."},
    {"acr_dataset", &M::acr_dataset, kRatio, kMean,
     "acr of the prompts whose turn came, drawn or passed over (run.data.selection.mode: greso): "
     "each group counts 1 / the probability with which its prompt was drawn. Only of steps with "
     "such a group, in which no group was replaced."},
    {"acr_100", &M::acr_100, kRatio, kLast, "Mean acr of the first 100 steps, or of all so far."},
    {"acr_sigma", &M::acr_sigma, kRatio, kLast,
     "Standard deviation of acr over the last 25 steps."},
    {"near_collapse", &M::near_collapse, kRatio, kMean,
     "Share of the comparable groups of the batch in which one completion alone has another "
     "deciding reward."},
    {"groups", &M::groups, kGroups, kSum, "Groups drawn for the step, replaced ones included."},
    {"unscorable_groups", &M::unscorable_groups, kGroups, kSum,
     "Drawn groups with fewer than two scorable completions."},
    {"groups_informative", &M::groups_informative, kGroups, kSum,
     "Drawn groups whose deciding rewards differ, so that they teach something."},
    {"groups_replaced", &M::groups_replaced, kGroups, kSum,
     "Drawn groups that others replaced because their deciding rewards are constant."},
    {"groups_masked", &M::groups_masked, kGroups, kSum,
     "Groups of the batch left out of loss and denominators because their deciding rewards are "
     "constant."},
    {"drawn.tokens", &M::drawn_tokens, kTokens, kSum,
     "Tokens of the completions of all drawn groups."},
    {"drawn.raw_reward_mean", &M::drawn_raw_reward_mean, kNone, kMean,
     "Mean raw reward of the scorable completions of all drawn groups, before groups are replaced "
     "or masked."},
    {"drawn.per_kept", &M::drawn_per_kept, kRatio, kMean,
     "drawn.tokens / kept.tokens, the price of dynamic sampling; 1 where nothing is replaced or "
     "masked."},
    {"control.draw_factor", &M::draw_factor, kRatio, kLast,
     "Groups that the closed loop on collapse let be drawn for the step, in units of P "
     "(run.control); null where it is off, as all of control."},
    {"control.mixed", &M::plan_mixed, kRatio, kMean,
     "Share of mixed groups in the batch, which the loop holds at run.control.mixed."},
    {"control.mixed_expected", &M::expected_mixed, kRatio, kMean,
     "That share as the draw factor and the groups of the 17 steps before let it be expected; null "
     "in the first step."},
    {"kept.groups", &M::kept_groups, kGroups, kSum,
     "Drawn groups that are neither replaced nor masked."},
    {"kept.tokens", &M::kept_tokens, kTokens, kSum, "Tokens of their completions."},
    {"kept.raw_reward_mean", &M::kept_raw_reward_mean, kNone, kMean,
     "Mean raw reward of their scorable completions."},
    {"kept.acr", &M::kept_acr, kRatio, kMean, "acr of these groups alone."},
    {"raw_reward_std", &M::raw_reward_std, kNone, kMean,
     "Standard deviation of the raw rewards of the scorable completions of the batch."},
    {"completions", &M::completions, kCompletions, kSum, "Completions of the batch."},
    {"unscorable", &M::unscorable, kCompletions, kSum, "Completions without a verdict."},
    {"truncated_share", &M::truncated_share, kRatio, kMean,
     "Share of the completions that ended at the token limit."},
    {"length_mean", &M::length_mean, kTokens, kMean, "Mean tokens of a completion."},
    {"episodes.turns_mean", &M::turns_mean, kNone, kMean,
     "Mean answers of the policy in an episode (run.env); null without episodes, as all of "
     "episodes."},
    {"episodes.tool_calls_mean", &M::tool_calls_mean, kNone, kMean,
     "Mean tool calls of an episode, those that cannot be read included."},
    {"episodes.failed_calls_share", &M::failed_calls_share, kRatio, kMean,
     "Share of the tool calls that failed: unknown tool, arguments that do not parse, an error of "
     "the tool."},
    {"episodes.repeated_answers_share", &M::repeated_answers_share, kRatio, kMean,
     "Share of the answers that repeat an earlier one of their conversation word for word."},
    {"episodes.ends_done", &M::ends_done, kRatio, kMean,
     "Share of the episodes that the environment or the agent ended."},
    {"episodes.ends_turns", &M::ends_turns, kRatio, kMean,
     "Share of the episodes that ended at run.env.max_turns."},
    {"episodes.ends_tokens", &M::ends_tokens, kRatio, kMean,
     "Share of the episodes that ended at run.env.max_tokens."},
    {"episodes.ends_tools", &M::ends_tools, kRatio, kMean,
     "Share of the episodes that ended at run.env.max_tool_calls."},
    {"episodes.ends_time", &M::ends_time, kRatio, kMean,
     "Share of the episodes that ended at run.env.timeout_ms; they are unscorable."},
    {"episodes.ends_failed", &M::ends_failed, kRatio, kMean,
     "Share of the episodes whose agent or environment failed; they are unscorable."},

    {"entropy", &M::entropy, kNats, kMean,
     "Minus the mean log-prob of the sampled tokens of all scorable completions."},
    {"entropy_exact", &M::entropy_exact, kNats, kMean,
     "Entropy over the whole vocabulary, per token in the loss."},
    {"entropy_coef", &M::entropy_coef, kNone, kLast, "Weight of the entropy bonus."},
    {"kl", &M::kl, kNats, kMean,
     "KL of the sampling policy from the learner per token in the loss, estimator k3."},
    {"kl_k1", &M::kl_k1, kNats, kMean,
     "KL of the sampling policy from the learner per token in the loss, estimator k1."},
    {"old_kl", &M::old_kl, kNats, kMean,
     "KL of the old policy of the ratio from the learner per token in the loss, estimator k3."},
    {"ref_kl", &M::ref_kl, kNats, kMean,
     "KL against the start model per token in the loss; 0 without a KL coefficient."},
    {"kl_average", &M::kl_average, kNats, kLast,
     "Moving average of the larger of kl and ref_kl, which the alarm kl_drift reads."},
    {"start_kl", &M::start_kl, kNats, kLast,
     "KL of the policy after the step from the start model per token of some completions, "
     "estimator k3; measured every local.learner.start_kl.every steps where kl_coef is 0."},
    {"clip_low", &M::clip_low, kRatio, kMean,
     "Share of the tokens in the loss clipped where the policy moved away from them."},
    {"clip_high", &M::clip_high, kRatio, kMean,
     "Share of the tokens in the loss clipped where the policy moved towards them."},
    {"clip_dual", &M::clip_dual, kRatio, kMean,
     "Share of the tokens in the loss clipped by dual_clip (negative advantages) or dppo.cap."},
    {"marked", &M::marked, kRatio, kMean,
     "Share of the tokens in the loss that clip_cov or kl_cov treated otherwise."},
    {"importance.mean", &M::importance_mean, kNone, kMean,
     "Mean importance weight, learner / sampler probability, before any bound."},
    {"importance.ess", &M::importance_ess, kRatio, kMean,
     "Effective share of the tokens under the importance weights, (sum w)^2 / (n sum w^2)."},
    {"importance.p01", &M::importance_p01, kNone, kMean,
     "1st percentile of the importance weights, from a histogram."},
    {"importance.p50", &M::importance_p50, kNone, kMean, "Median of the importance weights."},
    {"importance.p99", &M::importance_p99, kNone, kMean,
     "99th percentile of the importance weights."},
    {"correction.mean", &M::correction_mean, kNone, kMean,
     "Mean weight of algorithm.correction, as applied."},
    {"correction.ess", &M::correction_ess, kRatio, kMean,
     "Effective share of the tokens under the weights of algorithm.correction."},
    {"correction.truncated", &M::correction_truncated, kRatio, kMean,
     "Share of the tokens whose correction weight was cut at its bound."},
    {"correction.masked", &M::correction_masked, kRatio, kMean,
     "Share of the tokens whose correction weight was out of bounds and became 0."},
    {"distinct_share", &M::distinct_share, kRatio, kMean,
     "Share of the scorable responses that are the first of their token sequence in their group."},
    {"format_share", &M::format_share, kRatio, kMean,
     "Share of the scorable responses from which the verifier extracted an answer."},
    {"twice_verified", &M::twice_verified, kCompletions, kSum,
     "Completions of the batch that run.reward.second verified too, both with a verdict."},
    {"disagreement", &M::disagreement, kRatio, kMean,
     "Share of twice_verified on which the verdicts differ."},
    {"over_long_prompts", &M::over_long_prompts, kNone, kLast,
     "Prompts that were passed over so far because they are longer than "
     "run.data.max_prompt_tokens (run.data.over_long: drop)."},
    {"misjudged_sources", &M::misjudged_sources, kNone, kLast,
     "Data sources whose verifier fails on answers of known verdict (run.reward.controls)."},

    {"eval.step", &M::eval_step, kSteps, kLast,
     "Step whose weights the newest finished evaluation is of (run.eval); null unless one finished "
     "since the step before."},
    {"eval.accuracy", &M::eval_accuracy, kRatio, kLast,
     "Share of correct among the scorable completions of that evaluation."},
    {"eval.raw_reward_mean", &M::eval_raw_reward_mean, kNone, kLast,
     "Mean raw reward of its scorable completions."},
    {"eval.completions", &M::eval_completions, kNone, kLast,
     "Its completions, unscorable ones included."},
    {"eval.truncated_share", &M::eval_truncated_share, kRatio, kLast,
     "Share of its completions that ended at the token limit."},

    {"grad_norm", &M::grad_norm, kNone, kLast,
     "Norm of the gradient before clipping, mean over the updates whose gradient is finite."},
    {"lr", &M::lr, kNone, kLast, "Learning rate of the last update."},
    {"loss", &M::loss, kNone, kMean,
     "policy_loss + kl_loss - entropy_bonus; mean over the updates."},
    {"policy_loss", &M::policy_loss, kNone, kMean,
     "Loss of the policy, weighted by the aggregation."},
    {"kl_loss", &M::kl_loss, kNone, kMean, "KL against the start model, times its coefficient."},
    {"entropy_bonus", &M::entropy_bonus, kNone, kMean, "Entropy, times its coefficient."},
    {"unchanged_versions", &M::unchanged_versions, kSteps, kLast,
     "Steps in a row, up to the newest published version, that changed no weight."},
    {"updates", &M::updates, kUpdates, kSum, "Updates of the optimizer."},
    {"updates_stopped", &M::updates_stopped, kUpdates, kSum,
     "Updates that batch.kl_stop left out of the step."},
    {"skipped", &M::skipped, kUpdates, kSum,
     "Updates that were skipped because the gradient was not finite."},
    {"zero_gradient", &M::zero_gradient, kUpdates, kSum,
     "Updates whose gradient was exactly 0; run.optim.zero_gradient says what happened to them."},

    {"tokens", &M::tokens, kTokens, kSum,
     "Tokens to train of the scorable completions that are neither masked nor filtered."},
    {"trained_tokens", &M::trained_tokens, kTokens, kSum,
     "Tokens that were run through the model and are in the loss, of all updates."},
    {"dropped_tokens", &M::dropped_tokens, kTokens, kSum,
     "Tokens left out of the loss because their recorded log-prob is not finite."},
    {"zero_advantage_share", &M::zero_advantage_share, kRatio, kMean,
     "Share of `tokens` whose advantage is 0."},
    {"overlong_filtered", &M::overlong_filtered, kCompletions, kSum,
     "Completions that overlong.filter left out of the loss."},
    {"generated_tokens", &M::generated_tokens, kTokens, kSum,
     "Tokens of all completions of the batch."},
    {"tokens_per_second", &M::tokens_per_second, kNone, kLast, "generated_tokens / seconds.step."},
    {"accepted_tokens", &M::accepted_tokens, kTokens, kSum,
     "Tokens of accepted groups that were run through the model and are in the loss, each once "
     "however many epochs there are."},
    {"token_age.mean", &M::token_age_mean, kSteps, kMean,
     "Policy versions between the one that sampled an accepted token and the one that is trained, "
     "mean over the tokens."},
    {"token_age.p50", &M::token_age_p50, kSteps, kMean, "Median age of the accepted tokens."},
    {"token_age.p99", &M::token_age_p99, kSteps, kMean,
     "99th percentile of the ages; ages above 16 count as 16."},
    {"freshness", &M::freshness, kRatio, kMean,
     "Mean over the accepted tokens of 1 / (1 + age); 1 where all were sampled from the weights "
     "that they train."},
    {"speed.wall", &M::speed_wall, kTokensPerSecond, kLast, "accepted_tokens / seconds.step."},
    {"speed.busy", &M::speed_busy, kTokensPerSecond, kLast,
     "accepted_tokens / seconds.busy: what this rank would reach if it never waited."},
    {"speed.fresh", &M::speed_fresh, kTokensPerSecond, kLast,
     "The headline: speed.wall * freshness. It falls when tokens age as well as when they are "
     "few."},
    {"groups_trained", &M::groups_trained, kGroups, kSum, "Groups run through the model."},
    {"virtual_groups", &M::virtual_groups, kGroups, kSum, "Groups with virtual samples."},
    {"virtual_weight", &M::virtual_weight, kNone, kMean,
     "Mean confidence weight of the groups with virtual samples."},

    {"collapsed_gradient.share", &M::collapsed_gradient_share, kRatio, kMean,
     "Share of the gradient that comes from groups with constant deciding rewards."},
    {"collapsed_gradient.virtual", &M::collapsed_gradient_virtual, kRatio, kMean,
     "The part of collapsed_gradient.share that virtual samples give."},
    {"collapsed_gradient.shaping", &M::collapsed_gradient_shaping, kRatio, kMean,
     "The part of collapsed_gradient.share that reward shaping gives."},
    {"collapsed_gradient.estimator", &M::collapsed_gradient_estimator, kRatio, kMean,
     "The part of collapsed_gradient.share that the estimator gives."},
    {"collapsed_gradient.kl", &M::collapsed_gradient_kl, kRatio, kMean,
     "The part of collapsed_gradient.share that the KL term gives."},
    {"gate.rate", &M::gate_rate, kRatio, kLast,
     "Collapse rate that the gate of the estimator reads; null without a gate."},
    {"gate.threshold", &M::gate_threshold, kRatio, kLast,
     "Rate above which the gate opens; null without a gate."},
    {"gate.open", &M::gate_open, kFlag, kLast,
     "Whether the gate of the estimator is open; null without a gate."},
    {"age_mean", &M::age_mean, kSteps, kMean,
     "Steps between the oldest version that sampled a group and the version that the step "
     "trains."},
    {"age_max", &M::age_max, kSteps, kMax, "The largest age of a group."},

    {"reduced_bytes", &M::reduced_bytes, kBytes, kEachRank,
     "Bytes of gradients that the rank put into the all-reduce."},
    {"published_bytes", &M::published_bytes, kBytes, kEachRank,
     "Bytes that a worker reads of the version of the step: the weights, or the adapters of "
     "run.lora (rank 0)."},
    {"seconds.step", &M::seconds_step, kSeconds, kEachRank,
     "From the end of the step before to the end of this one."},
    {"seconds.wait", &M::seconds_wait, kSeconds, kEachRank,
     "Waiting for groups until there is a plan; a large share says that the workers are the "
     "bottleneck."},
    {"seconds.fetch", &M::seconds_fetch, kSeconds, kEachRank, "Fetching the groups of the rank."},
    {"seconds.forward", &M::seconds_forward, kSeconds, kEachRank,
     "Forward passes and loss; on a GPU the time that they take there, as the next three."},
    {"seconds.backward", &M::seconds_backward, kSeconds, kEachRank, "Backward passes."},
    {"seconds.reduce", &M::seconds_reduce, kSeconds, kEachRank,
     "Summing gradients over the ranks; a straggler shows less than the other ranks."},
    {"seconds.optimizer", &M::seconds_optimizer, kSeconds, kEachRank,
     "Clipping and the optimizer."},
    {"seconds.commit", &M::seconds_commit, kSeconds, kEachRank,
     "Reporting the step to the coordinator (rank 0)."},
    {"seconds.publish", &M::seconds_publish, kSeconds, kEachRank,
     "Handing the weights over (rank 0); writing them continues during the next step."},
    {"seconds.checkpoint", &M::seconds_checkpoint, kSeconds, kEachRank,
     "Checkpoints that held up training: comparing the ranks, copying, and waiting for the disk "
     "where the values were to change before they were written."},
    {"seconds.checkpoint_write", &M::seconds_checkpoint_write, kSeconds, kEachRank,
     "How long the checkpoint that was completed before this step ended was being written, while "
     "training continued (rank 0)."},
    {"seconds.wait_weights", &M::seconds_wait_weights, kSeconds, kEachRank,
     "Waiting until the weights before are published (rank 0)."},
    {"seconds.wait_peers", &M::seconds_wait_peers, kSeconds, kEachRank,
     "Waiting for the slowest rank, before the step and before gradients are summed."},
    {"seconds.start_kl", &M::seconds_start_kl, kSeconds, kEachRank,
     "Measuring start_kl, the load of the start model included (rank 0)."},
    {"seconds.busy", &M::seconds_busy, kSeconds, kEachRank,
     "seconds.step less wait, fetch, wait_weights and wait_peers."},
};

std::string_view UnitName(Unit unit) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "",      "flag",   "ratio",       "nats",   "seconds", "tokens_per_second",
      "bytes", "tokens", "completions", "groups", "steps",   "updates"};
  return kNames[static_cast<std::size_t>(unit)];
}

std::string_view ReductionName(Reduction reduction) {
  static constexpr std::array<std::string_view, 5> kNames = {"sum", "mean", "max", "last",
                                                             "each rank"};
  return kNames[static_cast<std::size_t>(reduction)];
}

// Whether a word of a name says what the unit at the end of a Prometheus name says anyway.
bool RepeatsUnit(std::string_view word, Unit unit) {
  return word == UnitName(unit) || (unit == Unit::kRatio && word == "share") ||
         (unit == Unit::kSteps && word == "step");
}

}  // namespace

std::span<const Measurement> MeasurementTable() { return kTable; }

std::string_view AlarmName(Alarm alarm) {
  static constexpr std::array<std::string_view, kAlarms> kNames = {
      "entropy_low",        "entropy_falling",      "kl_drift",   "responses_alike", "collapse",
      "no_gradient",        "collapse_unexplained", "unscorable", "truncated",       "length_drift",
      "verifiers_disagree", "verifier_controls",    "solved"};
  return kNames[static_cast<std::size_t>(alarm)];
}

void MeasureSpeed(StepMeasurements& step) {
  const auto speed = [&](double seconds) {
    return seconds > 0 ? step.accepted_tokens / seconds : StepMeasurements::kNotMeasured;
  };
  step.seconds_busy = std::max(0.0, step.seconds_step - step.seconds_waited());
  step.speed_wall = speed(step.seconds_step);
  step.speed_busy = speed(step.seconds_busy);
  step.speed_fresh = step.accepted_tokens > 0 ? step.speed_wall * step.freshness : step.speed_wall;
}

bool IsCounter(const Measurement& measurement) {
  return measurement.reduction == kSum || measurement.reduction == kEachRank;
}

std::string PrometheusName(const Measurement& measurement) {
  std::string name = "buttress_learner";
  std::string_view rest = measurement.name;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of("._"), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (!RepeatsUnit(word, measurement.unit)) name += fmt::format("_{}", word);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (measurement.unit != kNone && measurement.unit != kFlag)
    name += fmt::format("_{}", UnitName(measurement.unit));
  return IsCounter(measurement) ? name + "_total" : name;
}

std::string MeasurementsMarkdown() {
  std::string text =
      "| `steps.jsonl` | unit | reduction | Prometheus | meaning |\n|---|---|---|---|---|\n";
  for (const Measurement& row : kTable) {
    text += fmt::format("| `{}` | {} | {} | `{}` | {} |\n", row.name, UnitName(row.unit),
                        ReductionName(row.reduction), PrometheusName(row), row.help);
  }
  return text;
}

std::string MeasurementsText() {
  std::string text;
  for (const Measurement& row : kTable) {
    text += fmt::format("{:<30}{:<13}{:<11}{}\n", row.name, UnitName(row.unit),
                        ReductionName(row.reduction), row.help);
  }
  return text;
}

}  // namespace buttress
