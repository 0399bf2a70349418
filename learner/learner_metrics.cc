#include "learner/learner_metrics.h"

#include <algorithm>
#include <vector>

#include "lib/base/clock.h"

namespace buttress {
namespace {

const std::vector<double> kStepBounds = {.05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600};
const std::vector<double> kCheckpointBounds = {.01, .05, .1, .5, 1, 5, 10, 30, 60, 300};

double UnixSeconds() { return static_cast<double>(RealClock().UnixMs()) / 1000; }

}  // namespace

LearnerMetrics::LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size,
                               std::int64_t gradient_bytes)
    : metrics_(metrics),
      rank_label_(std::to_string(rank)),
      rank_0_(rank == 0),
      gradient_bytes_(world_size > 1 ? gradient_bytes : 0) {
  Set("world_size", "Ranks of the job.", world_size);
  Set("expected_world_size", "Ranks that the job was started for; 0 if nobody said.",
      expected_world_size);
}

void LearnerMetrics::Add(const std::string& name, const char* help, double value,
                         const MetricLabels& labels) {
  metrics_.Counter("buttress_learner_" + name, help, labels).Increment(value);
}

void LearnerMetrics::Set(const std::string& name, const char* help, double value,
                         const MetricLabels& labels) {
  metrics_.Gauge("buttress_learner_" + name, help, labels).Set(value);
}

void LearnerMetrics::AddPhase(const char* phase, double seconds) {
  Add("phase_seconds_total", "Seconds by phase of a step; stragglers show little `collective`.",
      seconds, {{"rank", rank_label_}, {"phase", phase}});
}

void LearnerMetrics::AddStep(const StepReport& report, double step_seconds) {
  AddRank(report);
  if (!rank_0_) return;
  AddJob(report, step_seconds);
  SetTraining(report);
  SetResponses(report);
}

void LearnerMetrics::AddRank(const StepReport& report) {
  AddPhase("wait", report.seconds.wait);
  AddPhase("fetch", report.seconds.fetch);
  AddPhase("forward", report.seconds.forward);
  AddPhase("backward", report.seconds.backward);
  AddPhase("collective", report.seconds.reduce);
  AddPhase("optimizer", report.seconds.optimizer);
  Set("last_step_timestamp_seconds", "End of the last step, Unix time.", UnixSeconds(),
      {{"rank", rank_label_}});
  Add("collective_bytes_total", "Bytes put into collectives.", static_cast<double>(gradient_bytes_),
      {{"rank", rank_label_}, {"op", "all_reduce"}});
  Add("nonfinite_total", "Steps whose gradient was not finite.", report.skipped ? 1 : 0,
      {{"rank", rank_label_}, {"where", "grad"}});
}

void LearnerMetrics::AddJob(const StepReport& report, double step_seconds) {
  const auto trained_tokens = static_cast<double>(report.loss.tokens);
  const auto dropped_tokens = static_cast<double>(report.loss.dropped);
  const auto trained_groups = static_cast<double>(report.batch.groups_trained);
  metrics_
      .Histogram("buttress_learner_step_seconds", "Seconds from the end of a step to the next's.",
                 kStepBounds)
      .Observe(step_seconds);
  Add("steps_total", "Optimizer steps.", 1);
  Add("skipped_steps_total", "Steps without an update.", report.skipped ? 1 : 0,
      {{"reason", "nonfinite"}});
  Add("wall_seconds_total", "Seconds of all steps.", step_seconds);
  Add("productive_seconds_total", "Seconds of all steps without waiting for a batch.",
      report.seconds.busy());
  Add("fetch_wait_seconds_total", "Seconds without a batch: the workers are the bottleneck.",
      report.seconds.wait);
  Add("trained_tokens_total", "Tokens in the loss.", trained_tokens);
  Add("dropped_tokens_total", "Tokens left out because their log-prob is not finite.",
      dropped_tokens);
  Add("trained_groups_total", "Groups run through the model.", trained_groups);
}

void LearnerMetrics::SetTraining(const StepReport& report) {
  SetLoss(report.loss);
  Set("entropy_coefficient", "Weight of the entropy bonus in the last step.", report.entropy_coef);
  Set("entropy", "Entropy over all completions, last step, nats a token.", report.entropy);
  Set("grad_norm", "Gradient norm of the last step before clipping.", report.grad_norm);
  Set("learning_rate", "Learning rate of the last step.", report.lr);
  Set("masked_groups", "Groups of the last step left out for their zero variance.",
      static_cast<double>(report.batch.groups_masked));
  const auto tokens = static_cast<double>(report.batch.tokens);
  Set("zero_advantage_ratio", "Share of the last step's tokens whose advantage is 0.",
      tokens > 0 ? static_cast<double>(report.batch.zero_advantage_tokens) / tokens : 0);
}

void LearnerMetrics::SetLoss(const LossReport& loss) {
  const char* const loss_help = "Loss of the last step by part.";
  Set("loss", loss_help, loss.policy_loss, {{"kind", "policy"}});
  Set("loss", loss_help, loss.kl_loss, {{"kind", "kl"}});
  Set("loss", loss_help, -loss.entropy_bonus, {{"kind", "entropy"}});
  Set("loss", loss_help, loss.loss(), {{"kind", "total"}});
  Set("kl_divergence", "KL(sampling policy || learner), last step, nats, k3.", loss.kl_k3);
  Set("clip_ratio", "Share of the last step's tokens that were clipped.",
      loss.clip_low + loss.clip_high);
  const char* const side_help =
      "The same by side: policy moved away (low), towards (high), bound of negative advantages "
      "(dual).";
  Set("clip_side_ratio", side_help, loss.clip_low, {{"side", "low"}});
  Set("clip_side_ratio", side_help, loss.clip_high, {{"side", "high"}});
  Set("clip_side_ratio", side_help, loss.clip_dual, {{"side", "dual"}});
  Set("marked_ratio", "Share of the last step's tokens that clip_cov or kl_cov marked.",
      loss.marked);
  Set("dropped_ratio",
      "Share of the last step's tokens left out because their log-prob is not finite.",
      loss.dropped_share());
  const char* const weight_help =
      "Quantiles of learner / sampler probability over the last step's tokens.";
  Set("importance_weight", weight_help, loss.importance.p01, {{"percentile", "1"}});
  Set("importance_weight", weight_help, loss.importance.p50, {{"percentile", "50"}});
  Set("importance_weight", weight_help, loss.importance.p99, {{"percentile", "99"}});
  Set("importance_ess_ratio", "Effective share of the last step's tokens under these weights.",
      loss.importance.ess);
  Set("correction_ess_ratio",
      "Effective share of the last step's tokens under the weights of algorithm.correction.",
      loss.correction.ess);
  const char* const bound_help =
      "Share of the last step's tokens whose correction weight was out of bounds.";
  Set("correction_bound_ratio", bound_help, loss.correction.truncated, {{"by", "truncation"}});
  Set("correction_bound_ratio", bound_help, loss.correction.masked, {{"by", "mask"}});
}

void LearnerMetrics::SetResponses(const StepReport& report) {
  Set("distinct_response_ratio",
      "Share of the last step's responses that no other response of their group repeats, the first "
      "of equals included.",
      report.responses.distinct_share());
  Set("format_ratio", "Share of the last step's responses that an answer could be extracted from.",
      report.responses.format_share());
  const GradientMass& mass = report.batch.gradient;
  const char* const help =
      "Share of the last step's gradient that comes from groups with constant raw rewards, by "
      "source.";
  Set("collapsed_gradient_ratio", help, mass.share(mass.virtual_samples), {{"source", "virtual"}});
  Set("collapsed_gradient_ratio", help, mass.share(mass.shaping), {{"source", "shaping"}});
  Set("collapsed_gradient_ratio", help, mass.share(mass.estimator), {{"source", "estimator"}});
  Set("collapsed_gradient_ratio", help, mass.share(mass.kl), {{"source", "kl"}});
}

void LearnerMetrics::AddAlarms(const AlarmMonitor& alarms, std::span<const Alarm> begun) {
  Set("kl_average", "Moving average of the larger KL, against sampler or start model, nats.",
      alarms.kl_average());
  for (std::size_t i = 0; i < kAlarms; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    const MetricLabels label = {{"alarm", std::string(AlarmName(alarm))}};
    Set("alarm_active", "1 while an alarm's rule holds.", alarms.active(alarm) ? 1 : 0, label);
    Add("alarms_total", "Times that an alarm began.",
        static_cast<double>(std::ranges::count(begun, alarm)), label);
  }
}

void LearnerMetrics::AddPublish(double seconds) {
  AddPhase("publish", seconds);
  Add("weights_published_total", "Policy versions handed to publishing.", 1);
}

void LearnerMetrics::AddCheckpoint(double seconds, std::int64_t bytes) {
  AddPhase("checkpoint", seconds);
  ObserveCheckpoint("save", seconds);
  Set("checkpoint_bytes", "Size of the last checkpoint.", static_cast<double>(bytes));
  Set("checkpoint_last_success_timestamp_seconds", "Last durable checkpoint, Unix time.",
      UnixSeconds());
}

void LearnerMetrics::AddCheckpointLoad(double seconds) { ObserveCheckpoint("load", seconds); }

void LearnerMetrics::ObserveCheckpoint(const char* op, double seconds) {
  metrics_
      .Histogram("buttress_learner_checkpoint_seconds", "Saving or loading a checkpoint.",
                 kCheckpointBounds, {{"op", op}})
      .Observe(seconds);
}

}  // namespace buttress
