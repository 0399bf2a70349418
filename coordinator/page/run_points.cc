#include "coordinator/page/run_points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // of the file, in one update

constexpr std::array<std::string_view, 35> kNames = {"step",
                                                     "time_unix",
                                                     "reward_mean",
                                                     "accuracy",
                                                     "acr",
                                                     "acr_effective",
                                                     "acr_expected",
                                                     "acr_expected_high",
                                                     "acr_all_correct",
                                                     "acr_all_wrong",
                                                     "acr_other",
                                                     "entropy",
                                                     "kl",
                                                     "start_kl",
                                                     "length_mean",
                                                     "truncated_share",
                                                     "distinct_share",
                                                     "unscorable",
                                                     "completions",
                                                     "grad_norm",
                                                     "token_age.mean",
                                                     "freshness",
                                                     "tokens_per_second",
                                                     "speed.fresh",
                                                     "seconds.step",
                                                     "seconds.wait",
                                                     "seconds.fetch",
                                                     "seconds.forward",
                                                     "seconds.backward",
                                                     "seconds.reduce",
                                                     "seconds.optimizer",
                                                     "seconds.publish",
                                                     "seconds.checkpoint",
                                                     "seconds.wait_weights",
                                                     "seconds.wait_peers"};

// The members of StepMeasurements that kNames name.
const std::vector<double StepMeasurements::*>& Members() {
  static const auto members = [] {
    std::vector<double StepMeasurements::*> found;
    for (const std::string_view name : kNames) {
      const auto row = std::ranges::find(MeasurementTable(), name, &Measurement::name);
      BUTTRESS_CHECK(row != MeasurementTable().end(), "every name is that of a measurement");
      found.push_back(row->value);
    }
    return found;
  }();
  return members;
}

ordered_json Known(double value) { return std::isfinite(value) ? ordered_json(value) : nullptr; }

}  // namespace

std::span<const std::string_view> PointNames() { return kNames; }

Status RunPoints::Update() {
  StepsTail& tail = std::filesystem::exists(steps_path_) ? tail_ : received_tail_;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps, tail.Next(kMostBytes));
  for (const StepMeasurements& step : steps) Add(step);
  return OkStatus();
}

void RunPoints::Add(const StepMeasurements& step) {
  if (!newest_.empty() && step.step <= newest_.back().step) GoBackBefore(step.step);
  monitor_->Observe(step);
  for (const Alarm alarm : step.alarms) begins_[static_cast<std::size_t>(alarm)] = step.step;
  newest_.push_back(step);
  if (newest_.size() > kPaceSteps) newest_.erase(newest_.begin());
  if (std::isfinite(step.eval_step)) evals_.push_back(step);
  if (evals_.size() > kMostPoints) evals_.erase(evals_.begin());
  if (static_cast<std::int64_t>(step.step) % stride_ != 0) return;
  Point& point = points_.emplace_back();
  point.step = step.step;
  for (const auto member : Members()) point.values.push_back(step.*member);
  point.sources = step.sources;
  point.alarms = step.alarms;
  if (points_.size() == kMostPoints) DropEverySecond();
}

void RunPoints::GoBackBefore(double step) {
  ++generation_;
  const auto late = [step](const auto& other) { return other.step >= step; };
  std::erase_if(points_, late);
  std::erase_if(evals_, late);
  std::erase_if(newest_, late);
  for (auto& begin : begins_) {
    if (begin && *begin >= step) begin.reset();
  }
  if (newest_.empty()) monitor_.emplace(alarm_config_);
}

void RunPoints::DropEverySecond() {
  ++generation_;
  stride_ *= 2;
  std::erase_if(points_, [this](const Point& point) {
    return static_cast<std::int64_t>(point.step) % stride_ != 0;
  });
}

ordered_json RunPoints::After(double after, std::size_t limit) const {
  ordered_json json = ordered_json::array();
  auto next = std::ranges::upper_bound(points_, after, {}, &Point::step);
  for (; next != points_.end() && json.size() < limit; ++next) {
    ordered_json point = {{"values", ordered_json::array()},
                          {"sources", ordered_json::object()},
                          {"alarms", ordered_json::array()}};
    for (const double value : next->values) point["values"].push_back(Known(value));
    for (const SourceMeasurements& source : next->sources)
      point["sources"][source.source] = Known(source.acr());
    for (const Alarm alarm : next->alarms) point["alarms"].push_back(AlarmName(alarm));
    json.push_back(std::move(point));
  }
  return json;
}

ordered_json RunPoints::Evals() const {
  ordered_json json = ordered_json::array();
  for (const StepMeasurements& step : evals_) {
    json.push_back({{"step", step.eval_step},
                    {"accuracy", Known(step.eval_accuracy)},
                    {"reward_mean", Known(step.eval_reward_mean)},
                    {"truncated_share", Known(step.eval_truncated_share)}});
  }
  return json;
}

std::optional<double> RunPoints::SecondsLeft(std::int64_t total_steps) const {
  if (newest_.size() < 2) return std::nullopt;
  const StepMeasurements& first = newest_.front();
  const StepMeasurements& last = newest_.back();
  const double pace = (last.time_unix - first.time_unix) / (last.step - first.step);
  return pace * (static_cast<double>(total_steps) - last.step);
}

}  // namespace buttress
