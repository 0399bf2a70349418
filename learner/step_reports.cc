#include "learner/step_reports.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/experience/episodes.h"
#include "lib/measure/alarms.h"
#include "lib/measure/steps_file.h"

namespace buttress {
namespace {

const std::vector<double> kStepBounds = {.05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600};
const std::vector<double> kCheckpointBounds = {.01, .05, .1, .5, 1, 5, 10, 30, 60, 300};

// The commonest reason for which completions of this rank's groups could not be scored.
std::string UnscorableReason(const StepState& state) {
  std::map<std::string, int> counts;
  for (const FetchedGroup& fetched : state.groups) {
    for (const std::string& reason : fetched.group.unscorable_reasons()) {
      if (!reason.empty()) ++counts[reason];
    }
  }
  const auto commonest =
      std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  return commonest == counts.end() ? "" : commonest->first;
}

// Every group with differing rewards is in the plan; the constant ones may have been replaced.
SolvedPrompts SolvedOf(const Plan& plan) {
  const CollapseCounts& drawn = plan.collapse.step;
  SolvedPrompts solved{.prompts = drawn.constant() + drawn.mixed, .solved = drawn.all_correct};
  for (const GroupHeadPtr& group : plan.groups) {
    const auto completions = static_cast<std::int64_t>(Episodes(*group));
    solved.tries = std::max(solved.tries, completions);
    const CollapseClass collapse = ClassOf(*group);
    if (collapse != CollapseClass::kMixed && collapse != CollapseClass::kOtherConstant) continue;
    bool right = false;
    for (std::size_t i = 0; i < CompletionsOf(*group); ++i)
      right = right || OutcomeOf(*group, i) == Outcome::kCorrect;
    solved.solved += right ? 1 : 0;
  }
  return solved;
}

}  // namespace

LearnerMetrics::LearnerMetrics(Metrics& metrics, int rank, int world_size, int expected_world_size)
    : metrics_(metrics), rank_label_{{"rank", std::to_string(rank)}}, leads_(rank == 0) {
  metrics_.Gauge("buttress_learner_world_size", "Ranks of the job.").Set(world_size);
  metrics_
      .Gauge("buttress_learner_expected_world_size",
             "Ranks that --expect-world names; 0 without it.")
      .Set(expected_world_size);
}

void LearnerMetrics::AddStep(const StepMeasurements& step) {
  for (const Measurement& row : MeasurementTable()) {
    const double value = step.*row.value;
    const bool of_rank = row.reduction == Reduction::kEachRank;
    if (!of_rank && !leads_) continue;
    const std::string name = PrometheusName(row);
    const MetricLabels labels = of_rank ? rank_label_ : MetricLabels{};
    if (!IsCounter(row)) {
      // A gauge that no step has measured, such as those of a gate, does not exist.
      if (std::isfinite(value)) gauges_.insert(name);
      // The newest evaluation stays until the next.
      if (!std::isfinite(value) && row.name.starts_with("eval.")) continue;
      if (gauges_.contains(name)) metrics_.Gauge(name, row.help, labels).Set(value);
    } else if (std::isfinite(value)) {
      metrics_.Counter(name, row.help, labels).Increment(value);
    }
  }
  if (!leads_) return;
  for (const SourceMeasurements& source : step.sources) AddSource(source);
  for (const ComponentMeasurements& component : step.components) {
    metrics_
        .Gauge("buttress_learner_component_reward_mean",
               "Mean of a component of the reward before weighting, of the last step that has it.",
               {{"component", component.name}})
        .Set(component.reward_mean());
  }
  metrics_
      .Histogram("buttress_learner_step_duration_seconds",
                 "From the end of a step to the end of the next.", kStepBounds)
      .Observe(step.seconds_step);
  metrics_
      .Histogram("buttress_learner_step_wait_seconds",
                 "Time of a step in which the learner waited: for groups, weights and other ranks.",
                 kStepBounds)
      .Observe(step.seconds_waited());
}

void LearnerMetrics::AddTokenAges(const StepSums& sums) {
  const auto counts = std::span(sums.values).subspan(StepSums::kAgeCounts, StepSums::kAgeBins);
  std::vector<double> bounds(counts.size() - 1);
  std::iota(bounds.begin(), bounds.end(), 0.0);
  metrics_
      .Histogram("buttress_learner_token_age_versions",
                 "Accepted tokens by their age: policy versions from the one that sampled them to "
                 "the one that their step trains.",
                 bounds)
      .ObserveMultiple({counts.begin(), counts.end()}, sums[StepSums::kAgeSum]);
}

void LearnerMetrics::AddSource(const SourceMeasurements& source) {
  const MetricLabels label = {{"source", source.source}};
  metrics_
      .Counter("buttress_learner_source_groups_total",
               "Groups drawn for the steps, replaced ones included, by data source.", label)
      .Increment(static_cast<double>(source.collapse.groups));
  metrics_
      .Gauge("buttress_learner_source_acr_ratio",
             "acr of the last step that drew groups of the data source.", label)
      .Set(source.acr());
  metrics_
      .Gauge("buttress_learner_source_raw_reward_mean",
             "Mean raw reward of the data source, of the same step.", label)
      .Set(source.raw_reward_mean());
  metrics_
      .Gauge("buttress_learner_source_accuracy_ratio",
             "accuracy of the data source, of the same step.", label)
      .Set(source.accuracy());
  if (std::isfinite(source.gate_open)) gauges_.insert("gate of " + source.source);
  if (!gauges_.contains("gate of " + source.source)) return;
  metrics_
      .Gauge("buttress_learner_source_gate_open",
             "Whether the gate of the data source is open; NaN where its groups read the gate of "
             "all groups.",
             label)
      .Set(source.gate_open);
}

void LearnerMetrics::AddAlarms(const AlarmMonitor& alarms, std::span<const Alarm> begun) {
  for (std::size_t i = 0; i < kAlarms; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    const MetricLabels label = {{"alarm", std::string(AlarmName(alarm))}};
    metrics_.Gauge("buttress_learner_alarm_active", "1 while the rule of the alarm holds.", label)
        .Set(alarms.active(alarm) ? 1 : 0);
    metrics_.Counter("buttress_learner_alarms_total", "Times that the alarm began.", label)
        .Increment(static_cast<double>(std::ranges::count(begun, alarm)));
  }
}

void LearnerMetrics::AddCheckpoint(double seconds, std::int64_t bytes) {
  ObserveCheckpoint("save", seconds);
  metrics_.Gauge("buttress_learner_checkpoint_bytes", "Size of the last checkpoint.")
      .Set(static_cast<double>(bytes));
  metrics_
      .Gauge("buttress_learner_checkpoint_last_success_timestamp_seconds",
             "Last durable checkpoint, Unix time.")
      .Set(static_cast<double>(RealClock().UnixMs()) / 1000);
}

void LearnerMetrics::AddCheckpointLoad(double seconds) { ObserveCheckpoint("load", seconds); }

void LearnerMetrics::ObserveCheckpoint(const char* operation, double seconds) {
  metrics_
      .Histogram("buttress_learner_checkpoint_duration_seconds", "Saving or loading a checkpoint.",
                 kCheckpointBounds, {{"op", operation}})
      .Observe(seconds);
}

StepReports::StepReports(const RunConfig& config, CoordinatorSource& source,
                         LearnerMetrics& metrics, bool leads)
    : path_(JoinPath(config.local.out, "steps.jsonl")),
      source_(source),
      metrics_(metrics),
      leads_(leads),
      alarms_(config.local.learner.alarms),
      breaker_(config.local.learner.stop_when),
      evals_(config) {}

Result<std::vector<StepMeasurements>> StepReports::Replay(const PolicyVersion& start) {
  BUTTRESS_RETURN_IF_ERROR(TruncateSteps(path_, static_cast<std::int64_t>(start.step)));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<StepMeasurements> steps, ReadSteps(path_));
  for (const StepMeasurements& step : steps) {
    alarms_.Observe(step);
    for (const SourceMeasurements& source : step.sources) {
      if (source.source != kOtherSources) source_names_.Of(source.source);
    }
  }
  evals_.Start(start, steps);
  return steps;
}

Status StepReports::Record(StepState& state) {
  if (leads_) BUTTRESS_RETURN_IF_ERROR(RecordOnRank0(state));
  metrics_.AddStep(state.measured);
  return OkStatus();
}

Status StepReports::RecordOnRank0(StepState& state) {
  StepMeasurements& measured = state.measured;
  measured.misjudged_sources = static_cast<double>(source_.misjudged_sources());
  measured.alarms = alarms_.Observe(measured);
  measured.kl_average = alarms_.kl_average();
  measured.acr_100 = alarms_.acr_100();
  measured.acr_sigma = alarms_.acr_sigma();
  measured.sources = ReportedSources(measured.sources, source_names_);
  evals_.TakeResult(measured);
  BUTTRESS_RETURN_IF_ERROR(AppendStep(path_, measured));
  source_.SetNewestStep(StepToJson(measured));
  metrics_.AddAlarms(alarms_, measured.alarms);
  metrics_.AddTokenAges(state.sums);
  Log(kInfo, "step",
      {{"raw_reward", measured.raw_reward_mean},
       {"accuracy", measured.accuracy},
       {"acr", measured.acr},
       {"entropy", measured.entropy},
       {"kl", measured.kl},
       {"grad_norm", measured.grad_norm},
       {"seconds", measured.seconds_step}});
  for (const Alarm alarm : measured.alarms) {
    Log(kWarn, "alarm",
        {{"alarm", std::string(AlarmName(alarm))},
         {"entropy", measured.entropy},
         {"kl_average", measured.kl_average},
         {"distinct_share", measured.distinct_share},
         {"acr", measured.acr},
         {"acr_effective", measured.acr_effective},
         {"acr_expected_high", measured.acr_expected_high},
         {"truncated_share", measured.truncated_share},
         {"length_mean", measured.length_mean},
         {"start_kl", measured.start_kl},
         {"disagreement", measured.disagreement}});
  }
  if (state.step == 1) {
    for (const std::string& notice : FirstBatchNotices(measured, SolvedOf(state.plan)))
      Log(kWarn, notice);
  }
  early_end_ = breaker_.Observe(measured, UnscorableReason(state));
  return OkStatus();
}

}  // namespace buttress
