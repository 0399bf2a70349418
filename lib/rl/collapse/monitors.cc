#include "lib/rl/collapse/monitors.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "lib/base/check.h"

namespace buttress {
namespace {

double Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

constexpr double kReleased = 0.9;

double Average(double average, double value, bool first) {
  return first ? value : kReadingDecay * average + (1.0 - kReadingDecay) * value;
}

}  // namespace

std::string_view AlarmName(Alarm alarm) {
  static constexpr std::array<std::string_view, kAlarms> kNames = {"entropy_low", "entropy_falling",
                                                                   "kl_drift", "responses_alike"};
  return kNames[static_cast<std::size_t>(alarm)];
}

Line FitLine(std::span<const double> values) {
  BUTTRESS_CHECK(values.size() >= 2, "a line needs two values or more");
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

std::vector<Alarm> AlarmMonitor::Observe(const StepReading& reading) {
  if (std::isfinite(reading.entropy)) {
    low_entropy_steps_ = reading.entropy < config_.entropy_floor ? low_entropy_steps_ + 1 : 0;
    entropies_.push_back(reading.entropy);
    if (static_cast<std::int64_t>(entropies_.size()) > config_.trend_steps) entropies_.pop_front();
  }
  const double kl = std::max(reading.sampler_kl, reading.reference_kl);
  if (std::isfinite(kl)) kl_average_ = Average(kl_average_, kl, steps_ == 0);
  if (std::isfinite(reading.distinct_share))
    distinct_average_ = Average(distinct_average_, reading.distinct_share, steps_ == 0);
  ++steps_;

  const std::vector<double> trend(entropies_.begin(), entropies_.end());
  const bool whole_trend = static_cast<std::int64_t>(trend.size()) == config_.trend_steps;
  // An alarm stays active until its value is a tenth below the limit, so that a value that moves
  // around the limit does not raise an alarm at every step.
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

void ResponseProbe::Add(const Group& group) {
  std::set<std::vector<std::int32_t>> seen;
  for (const Completion& completion : group.completions) {
    if (completion.outcome == Outcome::kUnscorable) continue;
    ++responses;
    distinct += seen.insert(completion.token_ids).second ? 1 : 0;
    formatted += completion.extracted_answer.empty() ? 0 : 1;
  }
}

double ResponseProbe::distinct_share() const { return Share(distinct, responses); }

double ResponseProbe::format_share() const { return Share(formatted, responses); }

}  // namespace buttress
