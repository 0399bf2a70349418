// Gives the steps of a run to a tracker.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/track/tracker.h"
#include "lib/base/retry.h"
#include "lib/measure/steps_file.h"

namespace buttress {

// Returns the evaluations in a run folder that are newer than all that its steps hold: of a run
// that has ended, those that came after the last step. kDataLoss for a damaged file.
Result<std::vector<EvalRow>> LastEvaluations(const std::string& out);

// A tracker and what it has not got yet. Not thread-safe.
class TrackerFeed {
 public:
  TrackerFeed(std::unique_ptr<Tracker> tracker, std::string steps_path);

  // Gives the tracker the steps that have ended since the last call, or after an error those of the
  // call before. Errors are the tracker's, and kDataLoss for a steps file that is damaged.
  Status Feed();

  // Feed for a run that goes on: a tracker that cannot be reached is left alone for up to half a
  // minute and then asked again; the log says so once. Other errors are returned.
  Status FeedPatiently(std::int64_t now_ms);

  Status AddEvaluations(std::span<const EvalRow> rows) { return tracker_->AddEvaluations(rows); }

  Status End(RunEnd end) { return tracker_->End(end); }

  std::string Place() const { return tracker_->Place(); }

 private:
  const std::unique_ptr<Tracker> tracker_;
  StepsTail tail_;
  std::vector<StepMeasurements> pending_;
  Backoff backoff_;
  std::int64_t rest_until_ms_ = 0;
};

}  // namespace buttress
