#include "learner/job.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "learner/output/canaries.h"
#include "learner/step/replicas.h"
#include "lib/base/os/busy_mark.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"
#include "lib/config/load.h"
#include "lib/config/run_identity.h"
#include "lib/measure/best_model.h"
#include "lib/measure/first_batch.h"
#include "lib/measure/steps_file.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

std::string CheckpointFolder(const RunConfig& config) {
  return JoinPath(config.local.out, "checkpoint");
}

std::string StepsPath(const RunConfig& config) { return JoinPath(config.local.out, "steps.jsonl"); }

std::string WeightsFolder(const RunConfig& config) { return JoinPath(config.local.out, "weights"); }

// The commonest reason for which completions of this rank's groups could not be scored.
std::string UnscorableReason(const StepState& state) {
  std::map<std::string, int> counts;
  for (const FetchedGroup& fetched : state.groups) {
    for (const std::string& reason : fetched.group.unscorable_reasons()) {
      if (!reason.empty()) ++counts[reason];
    }
  }
  const auto commonest =
      std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  return commonest == counts.end() ? "" : commonest->first;
}

bool LeaveRequested() { return CheckpointRequested() || ShutdownRequested(); }

}  // namespace

LearnerJob::LearnerJob(const RunConfig& config, Collective& control, Collective& tensors,
                       Transformer& model, Trainer& trainer, CoordinatorSource& source,
                       LearnerMetrics& metrics, const Credentials& credentials)
    : config_(config),
      timeout_(config.local.learner.collective_timeout_ms),
      config_sha256_(RunConfigHash(config)),
      identity_sha256_(RunIdentityHash(config)),
      control_(control),
      tensors_(tensors),
      model_(model),
      trainer_(trainer),
      source_(source),
      metrics_(metrics),
      credentials_(credentials),
      checkpoints_(CheckpointFolder(config), config.run.checkpoints.keep_last),
      alarms_(config.local.learner.alarms),
      breaker_(config.local.learner.stop_when),
      evals_(config),
      kept_(config) {}

LearnerJob::~LearnerJob() = default;

Status LearnerJob::Run() {
  BUTTRESS_RETURN_IF_ERROR(Start());
  return TrainUntilEnd();
}

// Loads the newest checkpoint, registers under a new learner epoch, makes the weights equal on all
// ranks, and publishes them.
Status LearnerJob::Start() {
  CheckpointState state;
  state.seed = config_.run.seed;
  if (leads()) {
    BUTTRESS_RETURN_IF_ERROR(LoadCheckpoint(state));
    BUTTRESS_RETURN_IF_ERROR(RegisterAndReplay(state));
  }
  BUTTRESS_RETURN_IF_ERROR(ShareState(state));
  BUTTRESS_ASSIGN_OR_RETURN(std::string run_id,
                            BroadcastBytes(control_, source_.run_id(), 0, timeout_));
  source_.Adopt(state.learner_epoch, std::move(run_id));
  trainer_.Resume(state.trainer);
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

// Registers with the coordinator, which assigns the learner epoch; truncates steps.jsonl to the
// checkpoint; and replays its steps into the alarms, so that an alarm that rang before a restart
// does not ring again, into the scores of checkpoints, and into the names of the sources, so that a
// source keeps its name.
Status LearnerJob::RegisterAndReplay(CheckpointState& state) {
  const CoordinatorSource::Origin checkpoint{
      {state.learner_epoch, static_cast<std::uint64_t>(state.step), state.digest},
      state.run_id,
      state.learner_sha256};
  const auto registered = source_.Register(config_sha256_, control_.size(), checkpoint);
  if (!registered.ok()) return registered.status().Annotate(CheckpointFolder(config_));
  const LearnerStart start = *registered;
  if (static_cast<std::int64_t>(start.next_step) != state.step + 1) {
    return Internal(c10::str("coordinator expects step ", start.next_step,
                             " next, but the checkpoint is of step ", state.step));
  }
  state.learner_epoch = start.learner_epoch;
  steps_ = source_.steps();
  BUTTRESS_RETURN_IF_ERROR(checkpoints_.PutAsideAfter(state.step));
  BUTTRESS_RETURN_IF_ERROR(TruncateSteps(StepsPath(config_), state.step));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(StepsPath(config_)));
  for (const StepMeasurements& step : steps) {
    alarms_.Observe(step);
    kept_.AddStep(static_cast<std::int64_t>(step.step), step.reward_mean);
    for (const SourceMeasurements& source : step.sources) {
      if (source.source != kOtherSources) source_names_.Of(source.source);
    }
  }
  evals_.Start({start.learner_epoch, static_cast<std::uint64_t>(state.step), ""}, steps);
  return OkStatus();
}

Status LearnerJob::LoadCheckpoint(CheckpointState& state) {
  const double started = MonotonicSeconds();
  const auto loaded = checkpoints_.Load(model_.parameters(), trainer_.optimizer());
  if (!loaded) return OkStatus();
  if (loaded->config_sha256 != identity_sha256_) {
    return InvalidArgument(c10::str("the checkpoint of step ", loaded->step, " in ",
                                    CheckpointFolder(config_),
                                    " was written with other settings of `run`; restore them, or "
                                    "set local.out to another folder"));
  }
  const std::string folder = CheckpointFolderOf(CheckpointFolder(config_), loaded->step);
  for (const NamedTensors* tensors : {&model_.parameters(), &trainer_.optimizer().state()}) {
    BUTTRESS_RETURN_IF_ERROR(
        CheckFinite(*tensors, "the checkpoint " + folder,
                    "move its folder away, and the run continues from the checkpoint before"));
  }
  state = *loaded;
  checkpoint_step_ = state.step;
  metrics_.AddCheckpointLoad(MonotonicSeconds() - started);
  return OkStatus();
}

// Broadcasts step, epoch, length of the run, weights and optimizer state of rank 0, which alone
// registers and reads checkpoints.
Status LearnerJob::ShareState(CheckpointState& state) {
  std::int64_t numbers[] = {state.step,
                            static_cast<std::int64_t>(state.learner_epoch),
                            state.trainer.skipped_in_a_row,
                            trainer_.optimizer().steps(),
                            checkpoint_step_,
                            steps_};
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({numbers, std::size(numbers), DType::kInt64}, 0)->Wait(timeout_));
  state.step = numbers[0];
  state.learner_epoch = static_cast<std::uint64_t>(numbers[1]);
  state.trainer.skipped_in_a_row = numbers[2];
  checkpoint_step_ = numbers[4];
  steps_ = numbers[5];
  trainer_.SetSteps(steps_);
  for (const NamedTensors* tensors : {&model_.parameters(), &trainer_.optimizer().state()}) {
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
  options.run_id = source_.run_id();
  options.sources = {local.advertise.empty() ? server_->address() : local.advertise};
  BUTTRESS_ASSIGN_OR_RETURN(publisher_, WeightPublisher::Create(options));
  weight_sync_ = std::make_unique<WeightSync>(
      *publisher_, [this](const WeightManifest& m) { return source_.Announce(m); });
  trainer_.CallBeforeUpdates([this] { return weight_sync_->BeforeUpdate(); });
  return Publish();
}

Status LearnerJob::TrainUntilEnd() {
  step_ended_ = MonotonicSeconds();
  for (; next_step_ <= steps_; ++next_step_) {
    BUTTRESS_ASSIGN_OR_RETURN(StepState state, trainer_.Step(next_step_, LeaveRequested));
    if (state.end == StepEnd::kFinished) break;
    if (state.end == StepEnd::kStopped) {
      BUTTRESS_RETURN_IF_ERROR(Checkpoint());
      return Cancelled(c10::str("left on request; the checkpoint is of step ", version_.step));
    }
    if (state.end == StepEnd::kRunStopped) {
      BUTTRESS_RETURN_IF_ERROR(Checkpoint());
      Log(kInfo, "an operator has stopped the run", {{"checkpoint", version_.step}});
      return control_.Barrier();
    }
    BUTTRESS_RETURN_IF_ERROR(FinishStep(state));
    if (!early_end_) continue;
    if (early_end_->learned) break;
    BUTTRESS_RETURN_IF_ERROR(Checkpoint());
    BUTTRESS_RETURN_IF_ERROR(ReportEarlyEnd());
    return NothingToLearn(early_end_->why);
  }
  return Finish();
}

// Rank 0 reports to the others whether and why the run ends with this step.
Status LearnerJob::AgreeOnEnd() {
  std::int64_t end = early_end_ ? (early_end_->learned ? 2 : 1) : 0;
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({&end, 1, DType::kInt64}, 0)->Wait(timeout_).Annotate("end of the run"));
  if (end == 0) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::string why,
      BroadcastBytes(control_, early_end_ ? early_end_->why : "", 0, timeout_));
  early_end_ = EarlyEnd{end == 2, why};
  if (leads()) Log(kWarn, "the run ends early", {{"why", why}});
  return OkStatus();
}

// Publishes the weights, records the step, and writes a checkpoint every checkpoint_interval steps.
Status LearnerJob::FinishStep(StepState& state) {
  StepMeasurements& measured = state.measured;
  version_.step = static_cast<std::uint64_t>(next_step_);
  SetLogStep(next_step_, next_step_);
  const double published_from = MonotonicSeconds();
  if (leads()) BUTTRESS_RETURN_IF_ERROR(Publish());
  const double now = MonotonicSeconds();
  measured.seconds_publish = now - published_from;
  measured.seconds_step = now - step_ended_;
  measured.seconds_checkpoint = checkpoint_seconds_;
  if (leads()) {
    measured.seconds_wait_weights = weight_sync_->seconds_waited() - weights_waited_;
    weights_waited_ = weight_sync_->seconds_waited();
    measured.unchanged_versions = static_cast<double>(weight_sync_->unchanged_versions());
  }
  MeasureSpeed(measured);
  measured.time_unix = static_cast<double>(RealClock().UnixMs()) / 1000;
  if (measured.seconds_step > 0)
    measured.tokens_per_second = measured.generated_tokens / measured.seconds_step;
  step_ended_ = now;
  checkpoint_seconds_ = 0;
  if (leads()) BUTTRESS_RETURN_IF_ERROR(Record(state));
  metrics_.AddStep(measured);
  BUTTRESS_RETURN_IF_ERROR(AgreeOnEnd());
  if (leads()) evals_.Offer(version_, model_);
  if (next_step_ % config_.run.checkpoint_interval == 0) return Checkpoint();
  return OkStatus();
}

// Observes the alarms and the breaker, appends to steps.jsonl and logs.
Status LearnerJob::Record(StepState& state) {
  StepMeasurements& measured = state.measured;
  measured.alarms = alarms_.Observe(measured);
  measured.kl_average = alarms_.kl_average();
  measured.acr_100 = alarms_.acr_100();
  measured.acr_sigma = alarms_.acr_sigma();
  measured.sources = ReportedSources(measured.sources, source_names_);
  evals_.TakeResult(measured);
  kept_.AddStep(next_step_, measured.reward_mean);
  BUTTRESS_RETURN_IF_ERROR(AppendStep(StepsPath(config_), measured));
  source_.SetNewestStep(StepToJson(measured));
  metrics_.AddAlarms(alarms_, measured.alarms);
  Log(kInfo, "step",
      {{"reward", measured.reward_mean},
       {"acr", measured.acr},
       {"entropy", measured.entropy},
       {"kl", measured.kl},
       {"grad_norm", measured.grad_norm},
       {"seconds", measured.seconds_step}});
  for (const Alarm alarm : measured.alarms) {
    Log(kWarn, "alarm",
        {{"alarm", std::string(AlarmName(alarm))},
         {"entropy", measured.entropy},
         {"kl_average", measured.kl_average},
         {"distinct_share", measured.distinct_share},
         {"acr", measured.acr},
         {"acr_effective", measured.acr_effective},
         {"acr_expected_high", measured.acr_expected_high},
         {"truncated_share", measured.truncated_share},
         {"length_mean", measured.length_mean},
         {"start_kl", measured.start_kl},
         {"disagreement", measured.disagreement}});
  }
  if (next_step_ == 1) {
    for (const std::string& notice : FirstBatchNotices(measured)) Log(kWarn, notice);
  }
  early_end_ = breaker_.Observe(measured, UnscorableReason(state));
  return OkStatus();
}

Status LearnerJob::Publish() {
  std::vector<Canary> canaries;
  if (NeedsCanaries(config_.local)) {
    BUTTRESS_ASSIGN_OR_RETURN(canaries, GreedyCanaries(model_));
  }
  return weight_sync_->Publish(version_, model_.parameters(), std::move(canaries));
}

// Rank 0 writes, once the state is found to be the same on all ranks. Does nothing if the
// checkpoint of this step exists already.
Status LearnerJob::Checkpoint() {
  const auto step = static_cast<std::int64_t>(version_.step);
  if (checkpoint_step_ == step) return OkStatus();
  std::optional<Result<BusyMark>> mark;
  if (leads()) mark = BusyMark::Set(CheckpointMark(config_.local.out));
  if (mark && !mark->ok())
    Log(kWarn, "a stop may interrupt this checkpoint", {{"why", mark->status().message()}});
  BUTTRESS_RETURN_IF_ERROR(CompareReplicas("weights", model_.parameters(), control_, timeout_));
  BUTTRESS_RETURN_IF_ERROR(
      CompareReplicas("moments", trainer_.optimizer().state(), control_, timeout_));
  if (!leads()) {
    checkpoint_step_ = step;
    return OkStatus();
  }
  const double started = MonotonicSeconds();
  // The coordinator never hands out the groups of a checkpointed step again, so the workers must
  // know the version that the groups trained first.
  BUTTRESS_RETURN_IF_ERROR(weight_sync_->Drain());
  CheckpointState state;
  state.step = step;
  state.run_id = source_.run_id();
  state.learner_epoch = version_.learner_epoch;
  state.learner_sha256 = source_.learner_sha256();
  state.seed = config_.run.seed;
  state.trainer = trainer_.state();
  state.config_sha256 = identity_sha256_;
  BUTTRESS_ASSIGN_OR_RETURN(
      state,
      checkpoints_.Save(state, model_.parameters(), trainer_.optimizer(),
                        [this](std::span<const std::int64_t> steps) { return kept_.Kept(steps); }));
  BUTTRESS_RETURN_IF_ERROR(source_.Checkpointed(step, state.digest, ""));
  checkpoint_step_ = step;
  checkpoint_digest_ = state.digest;
  KeepBestByReward();
  checkpoint_seconds_ = MonotonicSeconds() - started;
  metrics_.AddCheckpoint(checkpoint_seconds_, state.bytes);
  Log(kInfo, "checkpoint", {{"bytes", state.bytes}, {"seconds", checkpoint_seconds_}});
  return OkStatus();
}

// Makes the model <out>/best where the mean reward before its checkpoint is the best so far. Where
// the run is evaluated, the evaluator does so.
void LearnerJob::KeepBestByReward() {
  const auto reward = kept_.RewardOfLastStep();
  if (!reward) return;
  const std::string& out = config_.local.out;
  const BestMark mark{checkpoint_step_, "reward_mean", *reward};
  const std::string part = BestModelFolder(out) + ".part";
  const auto best = ReadBest(out);
  Status status = best.status();
  if (best.ok() && !IsBetter(mark, *best)) return;
  std::error_code error;
  std::filesystem::remove_all(part, error);
  if (status.ok()) status = SaveModelFolder(model_, config_.run.model.path, part);
  if (status.ok()) status = OfferBest(out, part, mark);
  if (!status.ok()) Log(kWarn, "the best model is not kept", {{"why", status.message()}});
}

// Lets workers and coordinator leave. REQUIRES: the checkpoint of the last step is written.
Status LearnerJob::ReportEarlyEnd() {
  if (!leads() || !early_end_) return OkStatus();
  return source_.Checkpointed(checkpoint_step_, checkpoint_digest_, early_end_->why);
}

// Writes the last checkpoint, which settles the run, and then the model as a Hugging Face folder,
// which is renamed last.
Status LearnerJob::Finish() {
  BUTTRESS_RETURN_IF_ERROR(Checkpoint());
  if (leads()) {
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
