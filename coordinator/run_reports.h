// Reports of workers and learner about themselves, and where the time of the loop goes. Nothing of
// the run depends on it, and it is lost with the process.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/controls.h"
#include "lib/base/os/clock.h"

namespace buttress {

// Keeps the steps that the learner sends, where the coordinator does not see its steps.jsonl: the
// page reads them instead. Not thread-safe. A file that cannot be written costs a warning and the
// curves of the page.
class ReceivedSteps {
 public:
  // An empty `out` keeps nothing.
  explicit ReceivedSteps(std::string out) : out_(std::move(out)) {}

  // Appends the line of a step, without its end, unless it was the last, is not one of
  // steps.jsonl, or <out> holds the learner's own file.
  void Take(const std::string& line);

 private:
  const std::string out_;
  std::string last_;
  bool warned_ = false;
};

// Of the loop's thread alone.
struct RunReports {
  static constexpr std::size_t kMostWorkers = std::size_t{1} << 16;

  RunReports(std::string out, const ControlOptions& options)
      : steps(std::move(out)), controls(options) {}

  // Keeps the newest times of a registered worker.
  void Take(const std::string& worker_id, const v1::WorkerTime& time) {
    if (workers.size() >= kMostWorkers) workers.clear();
    workers[worker_id] = time;
  }

  v1::CoordinatorTime OfCoordinator() const {
    v1::CoordinatorTime time;
    time.set_up_seconds(MonotonicSeconds() - started);
    time.set_busy_seconds(busy_seconds);
    time.set_ledger_seconds(ledger_seconds);
    return time;
  }

  const double started = MonotonicSeconds();
  double busy_seconds = 0;                        // of the loop's turns
  double ledger_seconds = 0;                      // of them, writing payloads and ledger
  std::map<std::string, v1::WorkerTime> workers;  // by id
  ReceivedSteps steps;
  Controls controls;
  std::function<std::string()> standby = {};  // how far it is, for people; unset: none may follow
};

}  // namespace buttress
