#include "learner/output/job_checkpoints.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/os/busy_mark.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/config/run_identity.h"
#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

// Elements summed at a time: LibTorch widens them to int64 first, which for a large embedding would
// need more memory than a step.
constexpr std::int64_t kChunk = std::int64_t{1} << 22;

// The sum of the elements as integers of their size, modulo 2^64.
std::uint64_t SumOfBits(const at::Tensor& tensor) {
  const at::ScalarType integers = tensor.element_size() == 4   ? at::kInt
                                  : tensor.element_size() == 8 ? at::kLong
                                                               : at::kShort;
  std::uint64_t sum = 0;
  for (const at::Tensor& chunk : tensor.detach().view(integers).flatten().split(kChunk))
    sum += static_cast<std::uint64_t>(chunk.sum(at::kLong).item<std::int64_t>());
  return sum;
}

}  // namespace

std::int64_t DigestOf(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  std::uint64_t digest = 0;
  for (const auto& [name, tensor] : tensors) {
    constexpr std::uint64_t kOddFactor = 0x9e3779b97f4a7c15u;
    digest = digest * kOddFactor + SumOfBits(tensor);
  }
  return static_cast<std::int64_t>(digest);
}

Status CompareReplicas(const std::string& what, const NamedTensors& tensors, Collective& control,
                       std::chrono::milliseconds timeout) {
  if (control.size() == 1) return OkStatus();
  std::int64_t own = DigestOf(tensors);
  std::vector<std::int64_t> all(static_cast<std::size_t>(control.size()));
  BUTTRESS_RETURN_IF_ERROR(
      control
          .AllGather({&own, 1, DType::kInt64},
                     {all.data(), static_cast<std::int64_t>(all.size()), DType::kInt64})
          ->Wait(timeout)
          .Annotate("digests of " + what));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return DataLoss(c10::str("rank ", rank, " has other ", what,
                             " than rank 0, although both made the same updates; check the memory "
                             "of its machine, and start again from the last checkpoint"));
  }
  return OkStatus();
}

void KeptCheckpoints::AddStep(std::int64_t step, double raw_reward_mean) {
  if (config_.run.checkpoints.keep_best == 0 || by_eval()) return;
  last_step_ = step;
  if (std::isfinite(raw_reward_mean)) rewards_.push_back(raw_reward_mean);
  while (std::ssize(rewards_) > config_.run.checkpoint_interval) rewards_.pop_front();
  if (step % config_.run.checkpoint_interval != 0 || rewards_.empty()) return;
  rewarded_[step] =
      std::accumulate(rewards_.begin(), rewards_.end(), 0.0) / static_cast<double>(rewards_.size());
}

std::optional<double> KeptCheckpoints::RewardOfLastStep() const {
  const auto found = rewarded_.find(last_step_);
  return found == rewarded_.end() ? std::nullopt : std::optional(found->second);
}

std::set<std::int64_t> KeptCheckpoints::Kept(std::span<const std::int64_t> checkpoints) const {
  std::set<std::int64_t> kept;
  if (config_.run.checkpoints.keep_best == 0) return kept;
  const auto exists = [checkpoints](std::int64_t step) {
    return std::ranges::find(checkpoints, step) != checkpoints.end();
  };
  std::map<std::int64_t, double> scores = rewarded_;
  if (by_eval()) {
    for (const PendingEval& pending : ListPendingEvals(config_.local.out)) {
      if (exists(pending.step)) kept.insert(pending.step);
    }
    const auto rows = ReadEvals(config_.local.out);
    if (!rows.ok()) {
      // Without their scores no checkpoint may be taken for a bad one.
      Log(kWarn, "no checkpoint is deleted", {{"why", rows.status().message()}});
      return {checkpoints.begin(), checkpoints.end()};
    }
    for (const EvalRow& row : *rows) {
      if (std::isfinite(row.accuracy)) scores[row.step] = row.accuracy;
    }
  }
  std::vector<std::pair<double, std::int64_t>> ranked;  // minus the score, step
  for (const auto& [step, score] : scores) {
    if (exists(step)) ranked.emplace_back(-score, step);
  }
  std::ranges::sort(ranked);
  const std::int64_t best = std::min(config_.run.checkpoints.keep_best, std::ssize(ranked));
  for (const auto& [score, step] : std::span(ranked).first(static_cast<std::size_t>(best)))
    kept.insert(step);
  return kept;
}

JobCheckpoints::JobCheckpoints(const RunConfig& config, Collective& control, Transformer& model,
                               Trainer& trainer, CoordinatorSource& source, LearnerMetrics& metrics)
    : config_(config),
      folder_(JoinPath(config.local.out, "checkpoint")),
      control_(control),
      model_(model),
      trainer_(trainer),
      source_(source),
      metrics_(metrics),
      timeout_(config.local.learner.collective_timeout_ms),
      store_(folder_, control, timeout_, config.run.checkpoints.keep_last),
      kept_(config) {}

Result<CheckpointState> JobCheckpoints::Find(std::int64_t before) {
  const double started = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(found_, store_.Find(before));
  seconds_find_ += MonotonicSeconds() - started;
  CheckpointState start;
  start.seed = config_.run.seed;
  if (!found_) return start;
  if (found_->state.config_sha256 != RunIdentityHash(config_)) {
    return InvalidArgument(c10::str("the checkpoint of step ", found_->state.step, " in ", folder_,
                                    " was written with other settings of `run`; restore them, or "
                                    "set local.out to another folder"));
  }
  return found_->state;
}

Status JobCheckpoints::Load() {
  if (!found_) return OkStatus();
  const double started = MonotonicSeconds();
  const StoredCheckpoint found = *std::exchange(found_, std::nullopt);
  BUTTRESS_RETURN_IF_ERROR(store_.Read(found, model_.units(), trainer_.optimizer()));
  const NamedTensors held = model_.held_values();
  for (const NamedTensors* tensors : {&held, &trainer_.optimizer().state()}) {
    BUTTRESS_RETURN_IF_ERROR(
        CheckFinite(*tensors, "the checkpoint " + found.folder,
                    "move its folder away, and the run continues from the checkpoint before"));
  }
  step_ = begun_ = found.state.step;
  digest_ = found.state.digest;
  metrics_.AddCheckpointLoad(MonotonicSeconds() - started + seconds_find_);
  return OkStatus();
}

Status JobCheckpoints::Begin(const PolicyVersion& version, Publication* publication) {
  const auto step = static_cast<std::int64_t>(version.step);
  if (begun_ == step) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(Finish(/*wait=*/true, version, publication));
  const double started = MonotonicSeconds();
  if (leads()) {
    auto mark = BusyMark::Set(CheckpointMark(config_.local.out));
    if (mark.ok())
      mark_.emplace(*std::move(mark));
    else
      Log(kWarn, "a stop may interrupt this checkpoint", {{"why", mark.status().message()}});
  }
  if (!model_.share().weights)
    BUTTRESS_RETURN_IF_ERROR(CompareReplicas("weights", model_.parameters(), control_, timeout_));
  if (!trainer_.optimizer().of_parts())
    BUTTRESS_RETURN_IF_ERROR(
        CompareReplicas("moments", trainer_.optimizer().state(), control_, timeout_));
  CheckpointState state;
  state.step = step;
  state.run_id = source_.run_id();
  state.learner_epoch = version.learner_epoch;
  if (leads()) state.learner_sha256 = source_.learner_sha256();
  state.seed = config_.run.seed;
  state.trainer = trainer_.state();
  state.config_sha256 = RunIdentityHash(config_);
  BUTTRESS_RETURN_IF_ERROR(store_.Begin(state, model_.units(), trainer_.optimizer()));
  begun_ = step;
  BUTTRESS_RETURN_IF_ERROR(KeepBestByReward());
  seconds_ += MonotonicSeconds() - started;
  return OkStatus();
}

void JobCheckpoints::BeforeUpdate() {
  const double started = MonotonicSeconds();
  store_.BeforeUpdate();
  seconds_ += MonotonicSeconds() - started;
}

Status JobCheckpoints::Finish(bool wait, const PolicyVersion& version, Publication* publication) {
  if (!store_.writing()) return OkStatus();
  const double started = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<SavedCheckpoint> saved, store_.Finish(wait));
  if (saved) {
    step_ = saved->state.step;
    if (leads()) BUTTRESS_RETURN_IF_ERROR(Report(*saved, version, *publication));
    mark_.reset();
  }
  seconds_ += MonotonicSeconds() - started;
  return OkStatus();
}

// Reports a checkpoint to the coordinator, which never hands out its groups again. So the workers
// must know the version that the groups trained first; later ones are published after it. Older
// checkpoints are deleted once the coordinator knows this one: it knows none of a learner that was
// replaced, which deletes nothing therefore.
Status JobCheckpoints::Report(const SavedCheckpoint& saved, const PolicyVersion& version,
                              Publication& publication) {
  const CheckpointState& state = saved.state;
  if (state.step == static_cast<std::int64_t>(version.step))
    BUTTRESS_RETURN_IF_ERROR(publication.Drain());
  BUTTRESS_RETURN_IF_ERROR(source_.Checkpointed(state.step, state.digest, ""));
  BUTTRESS_RETURN_IF_ERROR(
      store_.Accepted(state.step, [this](const auto& steps) { return kept_.Kept(steps); }));
  digest_ = state.digest;
  seconds_write_ = saved.seconds;
  metrics_.AddCheckpoint(saved.seconds, state.bytes);
  Log(kInfo, "checkpoint",
      {{"step", state.step}, {"bytes", state.bytes}, {"seconds", saved.seconds}});
  return OkStatus();
}

// Makes the model <out>/best where the mean reward before its checkpoint is the best so far. Where
// the run is evaluated, the evaluator does so. Where the weights are divided, every rank gives its
// parts.
Status JobCheckpoints::KeepBestByReward() {
  const std::string& out = config_.local.out;
  const auto reward = kept_.RewardOfLastStep();
  const BestMark mark{begun_, "raw_reward_mean", reward.value_or(0)};
  const auto best = ReadBest(out);
  if (reward && !best.ok())
    Log(kWarn, "the best model is not kept", {{"why", best.status().message()}});
  std::int64_t better = reward && best.ok() && IsBetter(mark, *best) ? 1 : 0;
  if (model_.share().weights)
    BUTTRESS_RETURN_IF_ERROR(control_.Broadcast({&better, 1, DType::kInt64}, 0)->Wait(timeout_));
  if (better == 0) return OkStatus();
  if (!leads()) return SaveModelFolder(model_, "", "", /*writes=*/false);
  const std::string part = BestModelFolder(out) + ".part";
  std::error_code error;
  std::filesystem::remove_all(part, error);
  Status status = SaveModelFolder(model_, config_.run.model.path, part);
  if (status.ok()) status = OfferBest(out, part, mark);
  if (!status.ok()) Log(kWarn, "the best model is not kept", {{"why", status.message()}});
  return OkStatus();
}

Status JobCheckpoints::ReportEnd(const std::string& why) {
  return source_.Checkpointed(step_, digest_, why);
}

}  // namespace buttress
