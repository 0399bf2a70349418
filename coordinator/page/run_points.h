// The steps of a run for charts: few measurements of each step, in bounded memory.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/watch_config.h"
#include "lib/measure/alarms.h"
#include "lib/measure/steps_file.h"

namespace buttress {

// The names of the measurements of a point, in its order; lib/measure/measurements.h explains them.
std::span<const std::string_view> PointNames();

// Not thread-safe.
class RunPoints {
 public:
  static constexpr std::size_t kMostPoints = 4096;

  // Reads `received_path`, with the same steps, while there is no `steps_path`.
  RunPoints(std::string steps_path, const std::string& received_path, const AlarmConfig& alarms)
      : steps_path_(std::move(steps_path)),
        tail_(steps_path_),
        received_tail_(received_path),
        alarm_config_(alarms),
        monitor_(std::in_place, alarms) {}

  // Reads what was added to the file, a few megabytes at most. Errors as StepsTail::Next.
  Status Update();

  // Rises whenever points that were returned do not hold any more: the learner went back to a
  // checkpoint, or every second point was dropped.
  std::int64_t generation() const { return generation_; }

  // Returns at most `limit` points of steps after `after`, oldest first, as
  // {"values": [PointNames], "sources": {name: ACR}, "alarms": [name]}; what was not measured is
  // null.
  nlohmann::ordered_json After(double after, std::size_t limit) const;

  // Returns the evaluations of the run, oldest first, kMostPoints at most:
  // [{"step", "accuracy", "reward_mean", "truncated_share"}].
  nlohmann::ordered_json Evals() const;

  // The newest steps, kPaceSteps at most.
  const std::vector<StepMeasurements>& newest() const { return newest_; }

  // Returns the seconds to the last step at the pace of the newest steps; nullopt with fewer than
  // two.
  std::optional<double> SecondsLeft(std::int64_t total_steps) const;

  const AlarmMonitor& alarms() const { return *monitor_; }

  // Returns the last step with which `alarm` began; nullopt if none did.
  std::optional<double> LastBegin(Alarm alarm) const {
    return begins_[static_cast<std::size_t>(alarm)];
  }

 private:
  struct Point {
    double step = 0;
    std::vector<double> values;  // [PointNames]
    std::vector<SourceMeasurements> sources;
    std::vector<Alarm> alarms;
  };

  static constexpr std::size_t kPaceSteps = 50;

  void Add(const StepMeasurements& step);
  void GoBackBefore(double step);
  void DropEverySecond();

  const std::string steps_path_;
  StepsTail tail_;
  StepsTail received_tail_;
  const AlarmConfig alarm_config_;
  std::optional<AlarmMonitor> monitor_;  // always there; begins again with the first step
  std::array<std::optional<double>, kAlarms> begins_;
  std::vector<Point> points_;
  std::vector<StepMeasurements> evals_;  // steps that hold a result
  std::vector<StepMeasurements> newest_;
  std::int64_t stride_ = 1;  // steps whose number it divides have points
  std::int64_t generation_ = 1;
};

}  // namespace buttress
