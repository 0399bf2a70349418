#include "lib/measure/alarms.h"

#include <algorithm>
#include <cmath>

#include "lib/base/report/check.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

// An alarm ends once its value is a tenth below (above, for a floor) the limit, so that a value
// that hovers at the limit raises it once.
constexpr double kReleased = 0.9;

double SharePerCompletion(double count, const StepMeasurements& step) {
  return step.completions > 0 ? count / step.completions : StepMeasurements::kNotMeasured;
}

}  // namespace

Line FitLine(std::span<const double> values) {
  BUTTRESS_CHECK(values.size() >= 2, "FitLine needs at least two values");
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / n;
  double slope = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    slope += (static_cast<double>(i) - (n - 1) / 2) * (values[i] - mean);
  slope *= 12.0 / (n * (n * n - 1));  // sum of (i - (n - 1) / 2)^2 is n (n^2 - 1) / 12
  return {mean - slope * (n - 1) / 2, mean + slope * (n - 1) / 2};
}

double FallOf(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const Line line = FitLine(values);
  return line.first > 0 ? std::max(0.0, 1.0 - line.last / line.first) : 0.0;
}

void MovingAverage::Add(double value) {
  if (!std::isfinite(value)) return;
  value_ = value_ ? kReadingDecay * *value_ + (1.0 - kReadingDecay) * value : value;
}

void AlarmMonitor::Average(const StepMeasurements& step) {
  kl_.Add(std::max(step.kl, step.ref_kl));
  // A first step without responses begins the average at 1.
  distinct_.Add(std::isfinite(step.distinct_share) ? step.distinct_share : distinct_.value_or(1));
  collapse_.Add(step.acr_effective);
  unexplained_.Add(step.acr - step.acr_expected_high);
  unscorable_.Add(SharePerCompletion(step.unscorable, step));
  truncated_.Add(step.truncated_share);
  disagreement_.Add(step.disagreement);
  if (std::isfinite(step.start_kl)) start_kl_ = step.start_kl;
  length_.Add(step.length_mean);
  if (std::isfinite(step.length_mean) && lengths_++ < kLengthSteps)
    first_lengths_ += step.length_mean;
  if (!std::isfinite(step.acr)) return;
  if (first_acr_.size() < kAcr100Steps) first_acr_.push_back(step.acr);
  last_acr_.push_back(step.acr);
  if (last_acr_.size() > kSigmaSteps) last_acr_.pop_front();
}

bool AlarmMonitor::LengthDrifts() const {
  if (lengths_ <= kLengthSteps || first_lengths_ <= 0) return false;
  const double factor = length_.value_or(0) / (first_lengths_ / static_cast<double>(kLengthSteps));
  const double limit = (active(Alarm::kLengthDrift) ? kReleased : 1.0) * config_.length_factor;
  return factor > limit || factor < 1 / limit;
}

double AlarmMonitor::acr_100() const {
  return first_acr_.empty() ? StepMeasurements::kNotMeasured : Acr100(first_acr_);
}

double AlarmMonitor::acr_sigma() const {
  if (last_acr_.empty()) return StepMeasurements::kNotMeasured;
  return SigmaAcr(std::vector<double>(last_acr_.begin(), last_acr_.end()));
}

std::vector<Alarm> AlarmMonitor::Observe(const StepMeasurements& step) {
  if (std::isfinite(step.entropy)) {
    low_entropy_steps_ = step.entropy < config_.entropy_floor ? low_entropy_steps_ + 1 : 0;
    entropies_.push_back(step.entropy);
    if (static_cast<std::int64_t>(entropies_.size()) > config_.trend_steps) entropies_.pop_front();
  }
  Average(step);
  const std::vector<double> trend(entropies_.begin(), entropies_.end());
  const bool whole_trend = static_cast<std::int64_t>(trend.size()) == config_.trend_steps;
  std::array<bool, kAlarms> holds{};
  const auto set = [&](Alarm alarm, bool value) { holds[static_cast<std::size_t>(alarm)] = value; };
  const auto above = [&](Alarm alarm, double value, double limit) {
    set(alarm, value > (active(alarm) ? kReleased * limit : limit));
  };
  set(Alarm::kEntropyLow, low_entropy_steps_ > config_.entropy_steps);
  if (whole_trend && config_.entropy_fall < 1)
    above(Alarm::kEntropyFalling, FallOf(trend), config_.entropy_fall);
  above(Alarm::kKlDrift, std::max(kl_average(), start_kl_), config_.kl_limit);
  const double floor =
      active(Alarm::kResponsesAlike) ? config_.distinct_floor / kReleased : config_.distinct_floor;
  set(Alarm::kResponsesAlike, distinct_.value_or(1) < floor);
  above(Alarm::kCollapse, collapse_.value_or(0), config_.acr_limit);
  set(Alarm::kCollapseUnexplained, unexplained_.value_or(0) > 0);
  above(Alarm::kUnscorable, unscorable_.value_or(0), config_.unscorable_limit);
  above(Alarm::kTruncated, truncated_.value_or(0), config_.truncated_limit);
  set(Alarm::kLengthDrift, LengthDrifts());
  above(Alarm::kVerifiersDisagree, disagreement_.value_or(0), config_.disagreement_limit);
  std::vector<Alarm> begun;
  for (std::size_t i = 0; i < kAlarms; ++i) {
    if (holds[i] && !active_[i]) begun.push_back(static_cast<Alarm>(i));
  }
  active_ = holds;
  return begun;
}

}  // namespace buttress
