#include "learner/job.h"

#include <torch/types.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "learner/canaries.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/shutdown.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

std::string CheckpointFolder(const RunConfig& config) {
  return JoinPath(config.local.out, "checkpoint");
}

std::string WeightsFolder(const RunConfig& config) { return JoinPath(config.local.out, "weights"); }

bool LeaveRequested() { return CheckpointRequested() || ShutdownRequested(); }

}  // namespace

LearnerJob::LearnerJob(const RunConfig& config, Collective& control, Collective& tensors,
                       Transformer& model, Trainer& trainer, CoordinatorSource& source,
                       LearnerMetrics& metrics, const Credentials& credentials)
    : config_(config),
      timeout_(config.local.learner.collective_timeout_ms),
      config_sha256_(RunConfigHash(config)),
      control_(control),
      tensors_(tensors),
      model_(model),
      trainer_(trainer),
      source_(source),
      metrics_(metrics),
      credentials_(credentials),
      checkpoints_(CheckpointFolder(config)),
      step_log_(JoinPath(config.local.out, "steps.jsonl")),
      alarms_(config.local.learner.alarms) {}

LearnerJob::~LearnerJob() = default;

Status LearnerJob::Run() {
  BUTTRESS_RETURN_IF_ERROR(Start());
  return TrainUntilEnd();
}

// Checkpoint, registration under a new learner epoch, weights equal on all ranks and announced.
Status LearnerJob::Start() {
  CheckpointState state;
  state.seed = config_.run.seed;
  if (leads()) {
    BUTTRESS_RETURN_IF_ERROR(LoadCheckpoint(state));
    const PolicyVersion checkpoint{state.learner_epoch, static_cast<std::uint64_t>(state.step),
                                   state.digest};
    BUTTRESS_ASSIGN_OR_RETURN(const LearnerStart start,
                              source_.Register(config_sha256_, control_.size(), checkpoint));
    if (static_cast<std::int64_t>(start.next_step) != state.step + 1) {
      return Internal("the coordinator wants step " + std::to_string(start.next_step) +
                      " after a checkpoint of step " + std::to_string(state.step));
    }
    state.learner_epoch = start.learner_epoch;
    BUTTRESS_RETURN_IF_ERROR(step_log_.KeepUntil(state.step));
    // An alarm that rang before the restart does not ring again.
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepReading> readings, step_log_.Readings());
    for (const StepReading& reading : readings) alarms_.Observe(reading);
  }
  BUTTRESS_RETURN_IF_ERROR(ShareState(state));
  source_.Adopt(state.learner_epoch);
  trainer_.ResumeSkipped(state.skipped_in_a_row);
  trainer_.ResumeGate(state.gate);
  trainer_.ResumeEntropyControl(state.entropy);
  version_ = {state.learner_epoch, static_cast<std::uint64_t>(state.step), ""};
  next_step_ = state.step + 1;
  SetLogStep(state.step, state.step);
  if (!leads()) return OkStatus();
  Log(kInfo, "learner starts",
      {{"next_step", next_step_},
       {"learner_epoch", state.learner_epoch},
       {"ranks", control_.size()}});
  return StartPublishing();
}

Status LearnerJob::LoadCheckpoint(CheckpointState& state) {
  const double started = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(const auto loaded,
                            checkpoints_.Load(model_.parameters(), trainer_.optimizer()));
  if (!loaded) return OkStatus();
  if (loaded->config_sha256 != config_sha256_) {
    return InvalidArgument("the checkpoint of step " + std::to_string(loaded->step) + " in " +
                           CheckpointFolder(config_) +
                           " was written with other settings of `run`; restore them, or set "
                           "local.out to another folder");
  }
  state = *loaded;
  checkpoint_step_ = state.step;
  metrics_.AddCheckpointLoad(MonotonicSeconds() - started);
  return OkStatus();
}

// Rank 0's step, epoch, weights and moments become everybody's: only rank 0 reads checkpoints.
Status LearnerJob::ShareState(CheckpointState& state) {
  std::int64_t numbers[] = {state.step, static_cast<std::int64_t>(state.learner_epoch),
                            state.skipped_in_a_row, trainer_.optimizer().steps()};
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({numbers, std::size(numbers), DType::kInt64}, 0)->Wait(timeout_));
  state.step = numbers[0];
  state.learner_epoch = static_cast<std::uint64_t>(numbers[1]);
  state.skipped_in_a_row = numbers[2];
  const AdamW& optimizer = trainer_.optimizer();
  for (const NamedTensors* tensors :
       {&model_.parameters(), &optimizer.first_moments(), &optimizer.second_moments()}) {
    for (const auto& [name, tensor] : *tensors) {
      BUTTRESS_RETURN_IF_ERROR(
          tensors_.Broadcast(BufferOf(tensor), 0)->Wait(timeout_).Annotate("broadcast of " + name));
    }
  }
  trainer_.optimizer().Resume(numbers[3]);
  return OkStatus();
}

Status LearnerJob::StartPublishing() {
  const LearnerConfig& local = config_.local.learner;
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(WeightsFolder(config_)));
  BUTTRESS_ASSIGN_OR_RETURN(
      server_, WeightServer::Start(WeightsFolder(config_), local.listen, credentials_));
  WeightStoreOptions options;
  options.folder = WeightsFolder(config_);
  options.sources = {local.advertise.empty() ? server_->address() : local.advertise};
  BUTTRESS_ASSIGN_OR_RETURN(publisher_, WeightPublisher::Create(options));
  weight_sync_ = std::make_unique<WeightSync>(
      *publisher_, [this](const WeightManifest& m) { return source_.Announce(m); });
  return Publish();
}

Status LearnerJob::TrainUntilEnd() {
  step_ended_ = MonotonicSeconds();
  for (; next_step_ <= config_.run.steps; ++next_step_) {
    BUTTRESS_ASSIGN_OR_RETURN(const StepReport report, trainer_.Step(next_step_, LeaveRequested));
    if (report.end == StepEnd::kFinished) break;
    if (report.end == StepEnd::kStopped) {
      BUTTRESS_RETURN_IF_ERROR(Checkpoint());
      return Cancelled("left on request; the checkpoint holds step " +
                       std::to_string(version_.step));
    }
    BUTTRESS_RETURN_IF_ERROR(AfterStep(report));
  }
  return Finish();
}

// Publish, tell, checkpoint every interval.
Status LearnerJob::AfterStep(const StepReport& report) {
  version_.step = static_cast<std::uint64_t>(report.step);
  SetLogStep(report.step, report.step);
  StepTimes times;
  const double published_from = MonotonicSeconds();
  if (leads()) BUTTRESS_RETURN_IF_ERROR(Publish());
  const double now = MonotonicSeconds();
  times.publish = now - published_from;
  times.time_unix = static_cast<double>(RealClock().UnixMs()) / 1000;
  times.step_seconds = now - step_ended_;
  times.checkpoint = checkpoint_seconds_;
  step_ended_ = now;
  checkpoint_seconds_ = 0;
  metrics_.AddStep(report, times.step_seconds);
  if (leads()) BUTTRESS_RETURN_IF_ERROR(Record(report, times));
  if (report.step % config_.run.checkpoint_interval == 0) return Checkpoint();
  return OkStatus();
}

// The step's line, its log and its alarms.
Status LearnerJob::Record(const StepReport& report, const StepTimes& times) {
  const std::vector<Alarm> begun = alarms_.Observe(ReadingOf(report));
  BUTTRESS_RETURN_IF_ERROR(step_log_.Append(StepToJson(report, times, begun)));
  metrics_.AddAlarms(alarms_, begun);
  Log(kInfo, "step",
      {{"reward", report.batch.reward_mean},
       {"acr", report.batch.collapse.acr()},
       {"entropy", report.entropy},
       {"kl", report.loss.kl_k3},
       {"grad_norm", report.grad_norm},
       {"seconds", times.step_seconds}});
  for (const Alarm alarm : begun) {
    Log(kWarn, "alarm",
        {{"alarm", std::string(AlarmName(alarm))},
         {"entropy", report.entropy},
         {"kl_average", alarms_.kl_average()},
         {"distinct_share", report.responses.distinct_share()}});
  }
  return OkStatus();
}

Status LearnerJob::Publish() {
  const double started = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<Canary> canaries, GreedyCanaries(model_));
  BUTTRESS_RETURN_IF_ERROR(
      weight_sync_->Publish(version_, model_.parameters(), std::move(canaries)));
  metrics_.AddPublish(MonotonicSeconds() - started);
  return OkStatus();
}

// Rank 0 writes: the state is the same on all ranks. Nothing if this step's checkpoint stands
// already.
Status LearnerJob::Checkpoint() {
  const auto step = static_cast<std::int64_t>(version_.step);
  if (!leads() || checkpoint_step_ == step) return OkStatus();
  const double started = MonotonicSeconds();
  // Settled groups are never trained again, so their version must be known to the workers first.
  BUTTRESS_RETURN_IF_ERROR(weight_sync_->Drain());
  CheckpointState state;
  state.step = step;
  state.learner_epoch = version_.learner_epoch;
  state.seed = config_.run.seed;
  state.skipped_in_a_row = trainer_.skipped_in_a_row();
  state.gate = trainer_.gate();
  state.entropy = trainer_.entropy_control();
  state.config_sha256 = config_sha256_;
  BUTTRESS_ASSIGN_OR_RETURN(state,
                            checkpoints_.Save(state, model_.parameters(), trainer_.optimizer()));
  BUTTRESS_RETURN_IF_ERROR(source_.Checkpointed(step, state.digest));
  checkpoint_step_ = step;
  checkpoint_seconds_ = MonotonicSeconds() - started;
  metrics_.AddCheckpoint(checkpoint_seconds_, state.bytes);
  Log(kInfo, "checkpoint", {{"bytes", state.bytes}, {"seconds", checkpoint_seconds_}});
  return OkStatus();
}

// The last checkpoint settles the run; then the model as a Hugging Face folder, renamed last.
Status LearnerJob::Finish() {
  BUTTRESS_RETURN_IF_ERROR(Checkpoint());
  if (leads()) {
    const std::string folder = JoinPath(config_.local.out, "model");
    std::error_code error;
    std::filesystem::remove_all(folder + ".part", error);
    BUTTRESS_RETURN_IF_ERROR(SaveModelFolder(model_, config_.run.model.path, folder + ".part"));
    std::filesystem::remove_all(folder, error);
    std::filesystem::rename(folder + ".part", folder, error);
    if (error) return Unavailable("cannot rename " + folder + ".part: " + error.message());
    Log(kInfo, "learner is done", {{"model", folder}});
  }
  return control_.Barrier();
}

}  // namespace buttress
