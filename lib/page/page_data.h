// The data of the run's page as JSON, from steps.jsonl, the ledger, the payloads and the logs of
// the run's folder.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/alarms.h"
#include "lib/measure/steps_file.h"
#include "lib/samples/sample_reader.h"

namespace buttress {

// The steps of a run for charts, in bounded memory. Not thread-safe.
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

  // Reads what was added to the file, `most_bytes` at most. Errors as StepsTail::Next.
  Status Update(std::uint64_t most_bytes);

  // Rises whenever points that were returned do not hold any more: the learner went back to a
  // checkpoint, or every second point was dropped.
  std::int64_t generation() const { return generation_; }

  // Returns at most `limit` points of steps after `after`, oldest first, as
  // {"values": [MeasurementTable()], "sources": {name: ACR}, "components": {name: mean},
  // "alarms": [name]}; what was not measured is null.
  nlohmann::ordered_json After(double after, std::size_t limit) const;

  // Returns the evaluations of the run, oldest first, kMostPoints at most:
  // [{"step", "accuracy", "raw_reward_mean", "truncated_share"}].
  nlohmann::ordered_json Evals() const;

  // The steps that have points, oldest first.
  const std::vector<StepMeasurements>& points() const { return points_; }

  // The newest steps, kPaceSteps at most.
  const std::vector<StepMeasurements>& newest() const { return newest_; }

  const AlarmMonitor& alarms() const { return *monitor_; }

  // Returns the last step with which `alarm` began; nullopt if none did.
  std::optional<double> LastBegin(Alarm alarm) const {
    return begins_[static_cast<std::size_t>(alarm)];
  }

 private:
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
  std::vector<StepMeasurements> points_;
  std::vector<StepMeasurements> evals_;  // steps that hold a result
  std::vector<StepMeasurements> newest_;
  std::int64_t stride_ = 1;  // steps whose number it divides have points
  std::int64_t generation_ = 1;
};

// Not thread-safe.
class PageData {
 public:
  // `tokenizer` outlives the data; without it there are no texts. `ask` returns the state of the
  // run within seconds.
  PageData(const RunConfig& config, const Tokenizer* tokenizer,
           std::function<Result<v1::GetRunStatusResponse>()> ask);

  // Returns one JSON object, a megabyte or two at most. Its `points` are those of steps after
  // `after`, or all if `generation` is not the present one. `more` says that there are further
  // points. What cannot be read is null, with the reason in `problems`.
  std::string Get(double after, std::int64_t generation);

  // Returns the same object with all points, for a page without a server (page_file.h).
  nlohmann::ordered_json Whole();

 private:
  nlohmann::ordered_json Look(std::uint64_t most_step_bytes);
  nlohmann::ordered_json AlarmsJson() const;
  void RefreshSlowly(std::vector<std::string>& problems);
  std::vector<double> HeldOut(const std::string& file) const;
  Result<nlohmann::ordered_json> NewestSamples();
  Result<nlohmann::ordered_json> Unsolved();

  const RunConfig config_;
  const Tokenizer* const tokenizer_;
  const std::function<Result<v1::GetRunStatusResponse>()> ask_;
  RunPoints points_;
  std::unique_ptr<SampleReader> samples_;  // null before the ledger could be opened
  double refreshed_ = -1e9;                // monotonic seconds
  nlohmann::ordered_json slow_;            // samples, unsolved, log, learned
};

// Returns the newest warnings and errors of the logs in `folder`, at most `most`, newest first:
// [{"time", "level", "who", "text"}]. Alarms, which the page shows by themselves, are left out.
nlohmann::ordered_json NewestWarnings(const std::string& folder, std::size_t most);

}  // namespace buttress
