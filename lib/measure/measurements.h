// The measurements of a training step, each declared once: name, unit, reduction and help text.
// steps.jsonl, Prometheus, docs/metrics.md, the alarms and the plots all read this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/rl/batch_measurements.h"

namespace buttress {

enum class Unit : std::uint8_t {
  kNone,
  kFlag,  // 0 or 1; a boolean in JSON
  kRatio,
  kNats,
  kSeconds,
  kTokensPerSecond,
  kBytes,
  kTokens,
  kCompletions,
  kGroups,
  kSteps,
  kUpdates,
};

// How one number comes from many ranks, groups and tokens. It also decides the Prometheus type.
enum class Reduction : std::uint8_t {
  kSum,       // over all ranks; a counter, which adds up the steps
  kMean,      // the sum over all ranks divided by the count over all ranks; a gauge
  kMax,       // over all ranks; a gauge
  kLast,      // one value for the job; a gauge
  kEachRank,  // steps.jsonl holds the value of rank 0; a counter with a label `rank`
};

enum class Alarm : std::uint8_t {
  kEntropyLow,  // the entropy is below entropy_floor for more than entropy_steps steps in a row
  // the least-squares line through the last trend_steps entropies loses entropy_fall of its start
  kEntropyFalling,
  kKlDrift,         // a KL, averaged over about ten steps, or the newest start_kl is above kl_limit
  kResponsesAlike,  // the share of distinct responses, averaged likewise, is below distinct_floor
  kCollapse,        // the ACR, averaged likewise, is above acr_limit
  kNoGradient,      // the effective ACR, averaged likewise, is above acr_limit
  // the ACR is above what the difficulty of the prompts gives, in the sum over steps (ExcessSum)
  kCollapseUnexplained,
  kUnscorable,  // the share of unscorable completions, averaged likewise, is above its limit
  kTruncated,   // the share of truncated completions, averaged likewise, is above its limit
  // the mean length, averaged likewise, has left that of the first steps by length_factor
  kLengthDrift,
  // the share of twice verified completions whose verdicts differ, averaged likewise, is above
  // disagreement_limit
  kVerifiersDisagree,
  kVerifierControls,  // the coordinator's alarm on answers of known verdict (run.reward.controls)
  // nearly all completions are right, averaged likewise; while it holds the alarms on the entropy,
  // on alike responses, kCollapse and kNoGradient do not
  kSolved,
};

inline constexpr std::size_t kAlarms = 13;

// "entropy_low", "entropy_falling", "kl_drift", "responses_alike", "collapse", "no_gradient",
// "collapse_unexplained", "unscorable", "truncated", "length_drift", "verifiers_disagree",
// "verifier_controls", "solved".
std::string_view AlarmName(Alarm alarm);

// The measurements of one step. MeasurementTable() documents each field. NaN means "not measured";
// it is null in JSON.
struct StepMeasurements : BatchMeasurements {
  double step = 0;
  double time_unix = 0;

  double acr_100 = 0, acr_sigma = 0;

  double entropy = 0, entropy_exact = 0, entropy_coef = 0;
  double kl = 0, kl_k1 = 0, old_kl = 0, ref_kl = 0, kl_average = 0, start_kl = kNotMeasured;
  double clip_low = 0, clip_high = 0, clip_dual = 0, marked = 0;
  double importance_mean = 0, importance_ess = 0;
  double importance_p01 = 0, importance_p50 = 0, importance_p99 = 0;
  double correction_mean = 0, correction_ess = 0;
  double correction_truncated = 0, correction_masked = 0;
  double distinct_share = 0, format_share = 0;
  double twice_verified = 0, disagreement = kNotMeasured;
  double eval_step = kNotMeasured, eval_accuracy = kNotMeasured,
         eval_raw_reward_mean = kNotMeasured;
  double eval_completions = kNotMeasured, eval_truncated_share = kNotMeasured;
  double over_long_prompts = 0;
  double misjudged_sources = 0;

  double grad_norm = 0, lr = 0;
  double loss = 0, policy_loss = 0, kl_loss = 0, entropy_bonus = 0;
  double unchanged_versions = 0;
  double updates = 0, updates_stopped = 0, skipped = 0, zero_gradient = 0;

  double trained_tokens = 0, dropped_tokens = 0, tokens_per_second = 0, accepted_tokens = 0;
  double token_age_mean = 0, token_age_p50 = 0, token_age_p99 = 0, freshness = 0;
  double speed_wall = 0, speed_busy = 0, speed_fresh = 0;

  double collapsed_gradient_share = 0, collapsed_gradient_virtual = 0;
  double collapsed_gradient_shaping = 0, collapsed_gradient_estimator = 0;
  double collapsed_gradient_kl = 0;

  double reduced_bytes = 0, published_bytes = 0;
  double seconds_step = 0, seconds_wait = 0, seconds_fetch = 0, seconds_forward = 0;
  double seconds_backward = 0, seconds_reduce = 0, seconds_optimizer = 0, seconds_commit = 0;
  double seconds_publish = 0, seconds_checkpoint = 0, seconds_checkpoint_write = 0;
  double seconds_wait_weights = 0, seconds_wait_peers = 0, seconds_start_kl = 0;
  double seconds_busy = 0;

  std::vector<Alarm> alarms;  // that begin with this step

  // Seconds of the step in which this rank waited for somebody else: for groups, for the weights
  // before to be published, or for other ranks.
  double seconds_waited() const {
    return seconds_wait + seconds_fetch + seconds_wait_weights + seconds_wait_peers;
  }
};

// Fills seconds_busy and the speeds from accepted_tokens, freshness and the seconds of the step.
void MeasureSpeed(StepMeasurements& step);

struct Measurement {
  // The key in steps.jsonl; "importance.ess" is the key "ess" of the object "importance".
  std::string_view name;
  double StepMeasurements::*value;
  Unit unit;
  Reduction reduction;
  std::string_view help;  // for people and for Prometheus; a sentence without Markdown
};

// Every numeric measurement, in the order of steps.jsonl.
std::span<const Measurement> MeasurementTable();

bool IsCounter(const Measurement& measurement);

// "buttress_learner_trained_tokens_total". The name of the measurement with the unit moved to its
// end, as Prometheus asks for: "groups_masked" becomes "masked_groups_total", "distinct_share"
// becomes "distinct_ratio", "seconds.wait" becomes "wait_seconds_total".
std::string PrometheusName(const Measurement& measurement);

// The table as Markdown for docs/metrics.md, and as text for a terminal.
std::string MeasurementsMarkdown();
std::string MeasurementsText();

}  // namespace buttress
