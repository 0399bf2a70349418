#include "learner/output/eval_exports.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lib/base/report/log.h"
#include "lib/measure/eval_files.h"

namespace buttress {

void EvalExports::Start(const PolicyVersion& start, std::span<const StepMeasurements> steps) {
  start_ = start;
  for (const StepMeasurements& step : steps) {
    if (std::isfinite(step.eval_step)) taken_step_ = std::max(taken_step_, step.eval_step);
  }
  if (config_.run.eval.every == 0) return;
  const Status removed =
      RemovePendingEvalsAfter(config_.local.out, static_cast<std::int64_t>(start.step));
  if (!removed.ok())
    Log(kWarn, "weights that waited for an evaluation stay", {{"why", removed.message()}});
}

bool EvalExports::IsDue(const PolicyVersion& version) const {
  const std::int64_t every = config_.run.eval.every;
  if (every == 0 || version.step % static_cast<std::uint64_t>(every) != 0) return false;
  if (config_.run.deterministic) return true;  // what is measured does not depend on speed either
  if (ListPendingEvals(config_.local.out).size() < kMostPendingEvals) return true;
  Log(kWarn,
      "a step is not evaluated: the evaluator is behind; raise run.eval.every, or lower "
      "run.eval.prompts",
      {{"step", version.step}});
  return false;
}

void EvalExports::Leave(const PolicyVersion& version, const Transformer& model) {
  if (const Status left = Export(version, model); !left.ok())
    Log(kWarn, "a step is not evaluated", {{"step", version.step}, {"why", left.message()}});
}

Status EvalExports::Export(const PolicyVersion& version, const Transformer& model) const {
  const std::string part = UnfinishedEvalFolder(config_.local.out);
  std::error_code error;
  std::filesystem::remove_all(part, error);
  BUTTRESS_RETURN_IF_ERROR(SaveModelFolder(model, config_.run.model.path, part));
  const std::string folder = PendingEvalFolderOf(config_.local.out, version.learner_epoch,
                                                 static_cast<std::int64_t>(version.step));
  std::filesystem::rename(part, folder, error);
  return error ? Unavailable("cannot rename " + part + " to " + folder + ": " + error.message())
               : OkStatus();
}

void EvalExports::TakeResult(StepMeasurements& step) {
  if (config_.run.eval.every == 0) return;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(EvalsPath(config_.local.out), error);
  if (error || seen_bytes_ == static_cast<std::int64_t>(bytes)) return;
  const auto rows = ReadEvals(config_.local.out);
  if (!rows.ok()) {
    seen_bytes_ = static_cast<std::int64_t>(bytes);
    Log(kWarn, "results of evaluations are not read", {{"why", rows.status().message()}});
    return;
  }
  const auto next = std::ranges::find_if(*rows, [this](const EvalRow& row) {
    // Another learner's evaluations of steps that this one trains again say nothing here.
    const bool ours = row.learner_epoch == start_.learner_epoch ||
                      row.step <= static_cast<std::int64_t>(start_.step);
    return ours && static_cast<double>(row.step) > taken_step_;
  });
  if (next == rows->end()) {
    seen_bytes_ = static_cast<std::int64_t>(bytes);
    return;
  }
  taken_step_ = step.eval_step = static_cast<double>(next->step);
  step.eval_accuracy = next->accuracy;
  step.eval_raw_reward_mean = next->raw_reward_mean;
  step.eval_completions = static_cast<double>(next->completions);
  step.eval_truncated_share = next->truncated_share();
}

}  // namespace buttress
