#include "lib/measure/alarms.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace buttress {
namespace {

// An alarm ends once its value is a tenth below (above, for a floor) the limit, so that a value
// that hovers at the limit raises it once.
constexpr double kReleased = 0.9;

double Average(double average, double value, bool first) {
  return first ? value : kReadingDecay * average + (1.0 - kReadingDecay) * value;
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

std::vector<Alarm> AlarmMonitor::Observe(const StepMeasurements& step) {
  if (std::isfinite(step.entropy)) {
    low_entropy_steps_ = step.entropy < config_.entropy_floor ? low_entropy_steps_ + 1 : 0;
    entropies_.push_back(step.entropy);
    if (static_cast<std::int64_t>(entropies_.size()) > config_.trend_steps) entropies_.pop_front();
  }
  const double kl = std::max(step.kl, step.ref_kl);
  if (std::isfinite(kl)) kl_average_ = Average(kl_average_, kl, steps_ == 0);
  if (std::isfinite(step.distinct_share))
    distinct_average_ = Average(distinct_average_, step.distinct_share, steps_ == 0);
  ++steps_;

  const std::vector<double> trend(entropies_.begin(), entropies_.end());
  const bool whole_trend = static_cast<std::int64_t>(trend.size()) == config_.trend_steps;
  const auto above = [this](Alarm alarm, double value, double limit) {
    return value > (active(alarm) ? kReleased * limit : limit);
  };
  std::array<bool, kAlarms> holds{};
  holds[static_cast<std::size_t>(Alarm::kEntropyLow)] = low_entropy_steps_ > config_.entropy_steps;
  holds[static_cast<std::size_t>(Alarm::kEntropyFalling)] =
      whole_trend && config_.entropy_fall < 1 &&
      above(Alarm::kEntropyFalling, FallOf(trend), config_.entropy_fall);
  holds[static_cast<std::size_t>(Alarm::kKlDrift)] =
      above(Alarm::kKlDrift, kl_average_, config_.kl_limit);
  const double floor =
      active(Alarm::kResponsesAlike) ? config_.distinct_floor / kReleased : config_.distinct_floor;
  holds[static_cast<std::size_t>(Alarm::kResponsesAlike)] = distinct_average_ < floor;
  std::vector<Alarm> begun;
  for (std::size_t i = 0; i < kAlarms; ++i) {
    if (holds[i] && !active_[i]) begun.push_back(static_cast<Alarm>(i));
  }
  active_ = holds;
  return begun;
}

}  // namespace buttress
