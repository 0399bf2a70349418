#include "cli/track/follow.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "lib/base/file.h"
#include "lib/base/log.h"

namespace buttress {

Result<std::vector<EvalRow>> LastEvaluations(const std::string& out) {
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<EvalRow> rows, ReadEvals(out));
  if (rows.empty()) return rows;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(JoinPath(out, "steps.jsonl")));
  double held = 0;
  for (const StepMeasurements& step : steps) {
    if (std::isfinite(step.eval_step)) held = std::max(held, step.eval_step);
  }
  std::erase_if(rows, [held](const EvalRow& row) { return static_cast<double>(row.step) <= held; });
  return rows;
}

TrackerFeed::TrackerFeed(std::unique_ptr<Tracker> tracker, std::string steps_path)
    : tracker_(std::move(tracker)),
      tail_(std::move(steps_path)),
      backoff_({.initial_ms = 1000, .max_ms = 30000}, static_cast<std::uint64_t>(::getpid())) {}

Status TrackerFeed::Feed() {
  if (pending_.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(pending_, tail_.Next());
  }
  if (pending_.empty()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(tracker_->Add(pending_));
  pending_.clear();
  return OkStatus();
}

Status TrackerFeed::FeedPatiently(std::int64_t now_ms) {
  if (now_ms < rest_until_ms_) return OkStatus();
  const Status status = Feed();
  const bool away =
      status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
  if (!away) {
    backoff_.Reset();
    return status;
  }
  if (backoff_.attempts() == 0) {
    Log(kWarn, "the tracker does not take the steps; trying again",
        {{"tracker", tracker_->Place()}, {"why", status.message()}});
  }
  rest_until_ms_ = now_ms + backoff_.NextMs();
  return OkStatus();
}

}  // namespace buttress
