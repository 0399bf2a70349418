#include "learner/learner_metrics.h"

#include <string>
#include <vector>

#include "lib/base/clock.h"

namespace buttress {
namespace {

const std::vector<double> kStepBounds = {.05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600};
const std::vector<double> kCheckpointBounds = {.01, .05, .1, .5, 1, 5, 10, 30, 60, 300};

double Now() { return static_cast<double>(RealClock().UnixMs()) / 1000; }

}  // namespace

LearnerMetrics::LearnerMetrics(
    Metrics& metrics, int rank, int world_size, int expected_world_size, std::int64_t gradient_bytes)
    : metrics_(metrics), rank_label_(std::to_string(rank)), rank_0_(rank == 0), gradient_bytes_(world_size > 1 ? gradient_bytes : 0) {
  metrics_.Gauge("buttress_learner_world_size", "Ranks of the job.").Set(world_size);
  metrics_.Gauge("buttress_learner_expected_world_size", "Ranks that the job was started for; 0 if nobody said.").Set(expected_world_size);
}

prometheus::Counter& LearnerMetrics::Phase(const std::string& name) {
  return metrics_.Counter("buttress_learner_phase_seconds_total", "Seconds by phase of a step; stragglers show little `collective`.",
                          {{"rank", rank_label_}, {"phase", name}});
}

void LearnerMetrics::AddStep(const StepReport& report, double step_seconds) {
  const StepSeconds& s = report.seconds;
  Phase("wait").Increment(s.wait);
  Phase("fetch").Increment(s.fetch);
  Phase("forward").Increment(s.forward);
  Phase("backward").Increment(s.backward);
  Phase("collective").Increment(s.reduce);
  Phase("optimizer").Increment(s.optimizer);
  metrics_.Gauge("buttress_learner_last_step_timestamp_seconds", "End of the last step, Unix time.", {{"rank", rank_label_}}).Set(Now());
  metrics_.Counter("buttress_learner_collective_bytes_total", "Bytes put into collectives.", {{"rank", rank_label_}, {"op", "all_reduce"}})
      .Increment(static_cast<double>(gradient_bytes_));
  auto& nonfinite = metrics_.Counter("buttress_learner_nonfinite_total", "Steps whose gradient was not finite.",
                                     {{"rank", rank_label_}, {"where", "grad"}});
  auto& skipped = metrics_.Counter("buttress_learner_skipped_steps_total", "Steps without an update.", {{"reason", "nonfinite"}});
  if (report.skipped) nonfinite.Increment();
  if (!rank_0_) return;
  if (report.skipped) skipped.Increment();
  metrics_.Counter("buttress_learner_steps_total", "Optimizer steps.").Increment();
  metrics_.Histogram("buttress_learner_step_seconds", "A step from the end of the one before.", kStepBounds).Observe(step_seconds);
  metrics_.Counter("buttress_learner_wall_seconds_total", "Seconds of all steps.").Increment(step_seconds);
  metrics_.Counter("buttress_learner_productive_seconds_total", "Seconds of all steps without waiting for a batch.")
      .Increment(s.busy());
  metrics_.Counter("buttress_learner_fetch_wait_seconds_total", "Seconds without a batch: the workers are the bottleneck.")
      .Increment(s.wait);
  metrics_.Counter("buttress_learner_trained_tokens_total", "Tokens in the loss.").Increment(static_cast<double>(report.trained_tokens));
  metrics_.Counter("buttress_learner_dropped_tokens_total", "Tokens left out because their recorded log-prob is not finite.")
      .Increment(static_cast<double>(report.dropped_tokens));
  metrics_.Counter("buttress_learner_trained_groups_total", "Groups run through the model.")
      .Increment(static_cast<double>(report.batch.groups_trained));
  const auto loss = [this](const char* kind) -> prometheus::Gauge& {
    return metrics_.Gauge("buttress_learner_loss", "Loss of the last step by part.", {{"kind", kind}});
  };
  loss("policy").Set(report.policy_loss);
  loss("kl").Set(report.kl_loss);
  loss("entropy").Set(-report.entropy_bonus);
  loss("total").Set(report.loss);
  metrics_.Gauge("buttress_learner_kl_divergence", "KL(sampling policy || learner) of the last step, nats, estimator k3.").Set(report.kl_k3);
  metrics_.Gauge("buttress_learner_entropy", "Entropy of the last step over all completions, nats a token.").Set(report.entropy);
  metrics_.Gauge("buttress_learner_grad_norm", "Gradient norm of the last step before clipping.").Set(report.grad_norm);
  metrics_.Gauge("buttress_learner_learning_rate", "Learning rate of the last step.").Set(report.lr);
  metrics_.Gauge("buttress_learner_clip_ratio", "Share of the last step's trained tokens whose ratio was clipped.")
      .Set(report.clip_low + report.clip_high);
  const auto tokens = static_cast<double>(report.batch.tokens);
  metrics_.Gauge("buttress_learner_zero_advantage_ratio", "Share of the last step's tokens whose advantage is 0.")
      .Set(tokens > 0 ? static_cast<double>(report.batch.zero_advantage_tokens) / tokens : 0);
}

void LearnerMetrics::AddPublish(double seconds) {
  Phase("publish").Increment(seconds);
  metrics_.Counter("buttress_learner_weights_published_total", "Policy versions handed to publishing.").Increment();
}

void LearnerMetrics::AddCheckpoint(double seconds, std::int64_t bytes) {
  Phase("checkpoint").Increment(seconds);
  metrics_.Histogram("buttress_learner_checkpoint_seconds", "Saving or loading a checkpoint.", kCheckpointBounds, {{"op", "save"}})
      .Observe(seconds);
  metrics_.Gauge("buttress_learner_checkpoint_bytes", "Size of the last checkpoint.").Set(static_cast<double>(bytes));
  metrics_.Gauge("buttress_learner_checkpoint_last_success_timestamp_seconds", "Last durable checkpoint, Unix time.").Set(Now());
}

void LearnerMetrics::AddCheckpointLoad(double seconds) {
  metrics_.Histogram("buttress_learner_checkpoint_seconds", "Saving or loading a checkpoint.", kCheckpointBounds, {{"op", "load"}})
      .Observe(seconds);
}

}  // namespace buttress
