#include "learner/job.h"

#include <c10/util/StringUtil.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "learner/output/folder_ranks.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

bool LeaveRequested() { return CheckpointRequested() || ShutdownRequested(); }

}  // namespace

LearnerJob::LearnerJob(const RunConfig& config, Collective& control, Collective& tensors,
                       Transformer& model, Trainer& trainer, CoordinatorSource& source,
                       LearnerMetrics& metrics, const Credentials& credentials)
    : config_(config),
      control_(control),
      tensors_(tensors),
      model_(model),
      trainer_(trainer),
      source_(source),
      credentials_(credentials),
      checkpoints_(config, control, model, trainer, source, metrics),
      reports_(config, source, metrics, leads()) {}

Status LearnerJob::Run() {
  BUTTRESS_RETURN_IF_ERROR(Start());
  return TrainUntilEnd();
}

// Registers under a new learner epoch, loads the checkpoint, makes the weights equal on all ranks,
// and publishes them.
Status LearnerJob::Start() {
  BUTTRESS_ASSIGN_OR_RETURN(CheckpointState state, Register());
  BUTTRESS_RETURN_IF_ERROR(checkpoints_.Load());
  BUTTRESS_RETURN_IF_ERROR(ShareState(state));
  trainer_.Resume(state.trainer);
  version_ = {state.learner_epoch, static_cast<std::uint64_t>(state.step), ""};
  SetLogStep(state.step, state.step);
  trainer_.CallBeforeUpdates([this] {
    checkpoints_.BeforeUpdate();
    return publication_->BeforeUpdate();
  });
  trainer_.CallWhileWaiting([this](double seconds) { return publication_->WhileWaiting(seconds); });
  if (leads()) {
    Log(kInfo, "learner starts",
        {{"next_step", state.step + 1},
         {"learner_epoch", state.learner_epoch},
         {"ranks", control_.size()}});
  }
  BUTTRESS_ASSIGN_OR_RETURN(publication_,
                            Publication::Start(config_, credentials_, source_, control_, model_));
  return publication_->Publish(version_, model_);
}

// Registers with the newest checkpoint that the run has not gone on without. A learner that was
// replaced may have completed its last one afterwards, so the newest of all need not be it.
Result<CheckpointState> LearnerJob::Register() {
  std::int64_t before = CheckpointStore::kNoBound;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(CheckpointState state, checkpoints_.Find(before));
    const Status status =
        AgreeOn(leads() ? RegisterAndReplay(state) : OkStatus(), control_, timeout());
    if (status.ok()) return state;
    if (status.code() != StatusCode::kAborted || state.step == 0) return status;
    if (leads()) Log(kWarn, "a checkpoint is passed over", {{"why", status.message()}});
    before = state.step;
  }
}

// Registers with the coordinator, which assigns the learner epoch, and takes up the steps up to the
// checkpoint.
Status LearnerJob::RegisterAndReplay(CheckpointState& state) {
  const CoordinatorSource::Origin checkpoint{
      {state.learner_epoch, static_cast<std::uint64_t>(state.step), state.digest},
      state.run_id,
      state.learner_sha256};
  const auto start = source_.Register(RunConfigHash(config_), control_.size(), checkpoint);
  if (!start.ok()) return start.status().Annotate(checkpoints_.folder());
  if (static_cast<std::int64_t>(start->next_step) != state.step + 1) {
    return Internal(c10::str("coordinator expects step ", start->next_step,
                             " next, but the checkpoint is of step ", state.step));
  }
  state.learner_epoch = start->learner_epoch;
  BUTTRESS_RETURN_IF_ERROR(checkpoints_.StartFrom(state.step, state.learner_epoch));
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::vector<StepMeasurements> steps,
      reports_.Replay({state.learner_epoch, static_cast<std::uint64_t>(state.step), ""}));
  for (const StepMeasurements& step : steps)
    checkpoints_.AddStep(static_cast<std::int64_t>(step.step), step.raw_reward_mean);
  return OkStatus();
}

// Broadcasts what rank 0 alone knows: epoch and secret of the job, id and length of the run; and
// the weights and optimizer state that a run starts with. Those of a checkpoint have been read by
// every rank.
Status LearnerJob::ShareState(CheckpointState& state) {
  std::int64_t numbers[] = {static_cast<std::int64_t>(state.learner_epoch), source_.steps()};
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({numbers, std::size(numbers), DType::kInt64}, 0)->Wait(timeout()));
  state.learner_epoch = static_cast<std::uint64_t>(numbers[0]);
  trainer_.SetSteps(numbers[1]);
  BUTTRESS_ASSIGN_OR_RETURN(std::string run_id,
                            BroadcastBytes(control_, source_.run_id(), 0, timeout()));
  BUTTRESS_ASSIGN_OR_RETURN(std::string secret,
                            BroadcastBytes(control_, source_.learner_secret(), 0, timeout()));
  source_.Adopt(state.learner_epoch, std::move(secret), std::move(run_id), numbers[1]);
  if (checkpoints_.any()) return OkStatus();
  NamedTensors shared;
  if (!trainer_.optimizer().of_parts()) shared = trainer_.optimizer().state();
  if (!model_.share().weights) {
    for (const ParameterUnit& unit : model_.units())
      if (unit.trainable) shared.emplace_back(unit.name, unit.flat);
  }
  for (const auto& [name, tensor] : shared) {
    BUTTRESS_RETURN_IF_ERROR(
        tensors_.Broadcast(BufferOf(tensor), 0)->Wait(timeout()).Annotate("broadcast of " + name));
  }
  return OkStatus();
}

Status LearnerJob::TrainUntilEnd() {
  step_ended_ = MonotonicSeconds();
  while (step() < source_.steps()) {
    BUTTRESS_ASSIGN_OR_RETURN(StepState state, trainer_.Step(step() + 1, LeaveRequested));
    if (state.end == StepEnd::kFinished) break;
    if (state.end == StepEnd::kStopped) {
      BUTTRESS_RETURN_IF_ERROR(LastCheckpoint());
      return Cancelled(c10::str("left on request; the checkpoint is of step ", version_.step));
    }
    if (state.end == StepEnd::kRunStopped) {
      BUTTRESS_RETURN_IF_ERROR(LastCheckpoint());
      Log(kInfo, "an operator has stopped the run", {{"checkpoint", version_.step}});
      return control_.Barrier();
    }
    BUTTRESS_RETURN_IF_ERROR(FinishStep(state));
    const std::optional<EarlyEnd>& end = reports_.early_end();
    if (!end) continue;
    if (end->learned) break;
    BUTTRESS_RETURN_IF_ERROR(LastCheckpoint());
    BUTTRESS_RETURN_IF_ERROR(ReportEarlyEnd());
    return NothingToLearn(end->why);
  }
  return Finish();
}

// Rank 0 reports to the others whether and why the run ends with this step.
Status LearnerJob::AgreeOnEnd() {
  const EarlyEnd own = reports_.early_end().value_or(EarlyEnd());
  std::int64_t end = reports_.early_end() ? (own.learned ? 2 : 1) : 0;
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({&end, 1, DType::kInt64}, 0)->Wait(timeout()).Annotate("end of the run"));
  if (end == 0) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string why, BroadcastBytes(control_, own.why, 0, timeout()));
  reports_.SetEarlyEnd({end == 2, why});
  if (leads()) Log(kWarn, "the run ends early", {{"why", why}});
  return OkStatus();
}

// Publishes the weights, records the step, and begins a checkpoint every checkpoint_interval steps.
Status LearnerJob::FinishStep(StepState& state) {
  StepMeasurements& measured = state.measured;
  version_.step = static_cast<std::uint64_t>(state.step);
  SetLogStep(state.step, state.step);
  const double published_from = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(publication_->Publish(version_, model_));
  const double now = MonotonicSeconds();
  measured.seconds_publish = now - published_from;
  measured.seconds_step = now - step_ended_;
  measured.seconds_checkpoint = checkpoints_.TakeSeconds();
  measured.seconds_checkpoint_write = checkpoints_.TakeWriteSeconds();
  if (leads()) publication_->Measure(measured);
  MeasureSpeed(measured);
  measured.time_unix = static_cast<double>(RealClock().UnixMs()) / 1000;
  if (measured.seconds_step > 0)
    measured.tokens_per_second = measured.generated_tokens / measured.seconds_step;
  step_ended_ = now;
  if (leads()) checkpoints_.AddStep(state.step, measured.raw_reward_mean);
  BUTTRESS_RETURN_IF_ERROR(reports_.Record(state));
  BUTTRESS_RETURN_IF_ERROR(AgreeOnEnd());
  BUTTRESS_RETURN_IF_ERROR(OfferEvaluation());
  BUTTRESS_RETURN_IF_ERROR(checkpoints_.Finish(/*wait=*/false, version_, publication_.get()));
  if (state.step % config_.run.checkpoint_interval != 0) return OkStatus();
  return checkpoints_.Begin(version_, publication_.get());
}

// Writes the checkpoint of the newest step, and waits until it and the newest version are complete.
Status LearnerJob::LastCheckpoint() {
  BUTTRESS_RETURN_IF_ERROR(checkpoints_.Begin(version_, publication_.get()));
  BUTTRESS_RETURN_IF_ERROR(publication_->Drain());
  return checkpoints_.Finish(/*wait=*/true, version_, publication_.get());
}

// Leaves the weights for the evaluator where it is due. Where they are divided, every rank gives
// its parts.
Status LearnerJob::OfferEvaluation() {
  std::int64_t due = leads() && reports_.EvaluationIsDue(version_) ? 1 : 0;
  if (model_.share().weights)
    BUTTRESS_RETURN_IF_ERROR(
        control_.Broadcast({&due, 1, DType::kInt64}, 0)->Wait(timeout()).Annotate("evaluation"));
  if (due == 0) return OkStatus();
  if (leads()) {
    reports_.LeaveForEvaluation(version_, model_);
    return OkStatus();
  }
  return SaveModelFolder(model_, "", "", /*writes=*/false);
}

// Lets workers and coordinator leave. REQUIRES: the checkpoint of the last step is written.
Status LearnerJob::ReportEarlyEnd() {
  if (!leads() || !reports_.early_end()) return OkStatus();
  return checkpoints_.ReportEnd(reports_.early_end()->why);
}

// Writes the last checkpoint, which settles the run, and then the model as a Hugging Face folder,
// which is renamed last.
Status LearnerJob::Finish() {
  BUTTRESS_RETURN_IF_ERROR(LastCheckpoint());
  if (!leads()) {
    BUTTRESS_RETURN_IF_ERROR(SaveModelFolder(model_, "", "", /*writes=*/false));
  } else {
    const std::string folder = JoinPath(config_.local.out, "model");
    std::error_code error;
    std::filesystem::remove_all(folder + ".part", error);
    BUTTRESS_RETURN_IF_ERROR(SaveModelFolder(model_, config_.run.model.path, folder + ".part"));
    std::filesystem::remove_all(folder, error);
    std::filesystem::rename(folder + ".part", folder, error);
    if (error) return Unavailable(c10::str("cannot rename ", folder, ".part: ", error.message()));
    Log(kInfo, "learner has finished", {{"model", folder}});
  }
  BUTTRESS_RETURN_IF_ERROR(ReportEarlyEnd());
  return control_.Barrier();
}

}  // namespace buttress
