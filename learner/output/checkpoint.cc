#include "learner/output/checkpoint.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "learner/output/checkpoint_commit.h"
#include "learner/output/folder_ranks.h"
#include "learner/output/held_values.h"
#include "learner/step/grad_reducer.h"
#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/policy/transformer.h"
#include "lib/weights/checkpoint_folder.h"
#include "lib/weights/version_folder.h"

namespace buttress {
namespace {

std::string FileOf(int rank) { return c10::str("rank-", rank, ".safetensors"); }

// What a rank reports of its file.
struct FileReport {
  std::int64_t bytes = -1;  // -1: it writes none
  double seconds = 0;
  std::array<char, 32> sha256{};
};

}  // namespace

Status CheckpointStore::Agree(const Status& own) const { return AgreeOn(own, control_, timeout_); }

Status CheckpointStore::FindRanks() {
  if (!sees_.empty()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(sees_, RanksThatSee(folder_, control_, timeout_));
  return OkStatus();
}

std::vector<int> CheckpointStore::SeeingRanks() const {
  std::vector<int> seeing;
  for (int rank = 0; rank < control_.size(); ++rank) {
    if (Sees(rank)) seeing.push_back(rank);
  }
  return seeing;
}

// The rank that writes the values of `rank`.
int CheckpointStore::WriterOf(int rank) const {
  const std::vector<int> seeing = SeeingRanks();
  return Sees(rank) ? rank : seeing[static_cast<std::size_t>(rank) % seeing.size()];
}

Status CheckpointStore::Begin(const CheckpointState& state, const std::vector<ParameterUnit>& units,
                              const AdamW& optimizer) {
  BUTTRESS_CHECK(!writing(), "one checkpoint is written at a time");
  BUTTRESS_RETURN_IF_ERROR(FindRanks());
  auto writing = std::make_unique<Writing>();
  writing->checkpoint = {
      state, optimizer.steps(), {}, LayoutOf(units), PartFolderOf(folder_, state)};
  const std::string& part = writing->checkpoint.folder;
  BUTTRESS_RETURN_IF_ERROR(Agree(leads() ? MakePartFolder(folder_, part) : OkStatus()));
  const std::vector<HeldValues> held = HeldBy(units, optimizer);
  BUTTRESS_ASSIGN_OR_RETURN(NamedTensors others, TakeValuesOfOthers(held));
  NamedTensors own;
  for (const HeldValues& values : held)
    own.emplace_back(StoredName(values.kind, values.unit->name, values.unit->part_begin),
                     values.part());
  if (Sees(control_.rank()))
    writing->shard.emplace(part, FileOf(control_.rank()), own, std::move(others));
  writing_ = std::move(writing);
  return OkStatus();
}

// Ranks that do not see the folder give their values to one that does.
Result<NamedTensors> CheckpointStore::TakeValuesOfOthers(
    const std::vector<HeldValues>& held) const {
  NamedTensors taken;
  for (int rank = 0; rank < control_.size(); ++rank) {
    if (Sees(rank)) continue;
    for (const HeldValues& values : held) {
      const at::Tensor part = values.part().detach();
      const at::Tensor host = control_.rank() == rank
                                  ? part.cpu().contiguous()
                                  : at::empty(part.sizes(), part.options().device(at::kCPU));
      BUTTRESS_RETURN_IF_ERROR(control_.Broadcast(BufferOf(host), rank)->Wait(timeout_));
      if (control_.rank() != WriterOf(rank)) continue;
      taken.emplace_back(StoredName(values.kind, values.unit->name, values.PartBeginOn(rank)),
                         host);
    }
  }
  return taken;
}

void CheckpointStore::BeforeUpdate() const {
  if (writing() && writing_->shard) writing_->shard->BeforeUpdate();
}

Result<std::optional<SavedCheckpoint>> CheckpointStore::Finish(bool wait) {
  if (!writing()) return std::optional<SavedCheckpoint>();
  std::optional<ShardWriter>& shard = writing_->shard;
  if (!wait) {
    std::int64_t done = !shard || shard->done() ? 1 : 0;
    BUTTRESS_RETURN_IF_ERROR(control_.AllReduceSum({&done, 1, DType::kInt64})
                                 ->Wait(timeout_)
                                 .Annotate("state of the checkpoint"));
    if (done < control_.size()) return std::optional<SavedCheckpoint>();
  }
  const std::unique_ptr<Writing> written = std::move(writing_);
  std::optional<WrittenShard> own;
  Status status;
  if (written->shard) {
    auto file = written->shard->Finish();
    status = file.status();
    if (file.ok()) own = *std::move(file);
  }
  BUTTRESS_RETURN_IF_ERROR(Agree(status));
  StoredCheckpoint& checkpoint = written->checkpoint;
  BUTTRESS_ASSIGN_OR_RETURN(const double seconds, GatherFiles(own, checkpoint.files));
  if (leads()) status = CommitCheckpoint(folder_, checkpoint);
  BUTTRESS_RETURN_IF_ERROR(Agree(status));
  return std::optional(SavedCheckpoint{std::move(checkpoint.state), seconds});
}

// Collects what all ranks have written. Returns the longest time.
Result<double> CheckpointStore::GatherFiles(const std::optional<WrittenShard>& own,
                                            std::vector<WeightFile>& files) const {
  FileReport report;
  if (own) {
    report = {static_cast<std::int64_t>(own->file.bytes), own->seconds, {}};
    own->file.sha256.copy(report.sha256.data(), report.sha256.size());
  }
  std::vector<FileReport> all(static_cast<std::size_t>(control_.size()));
  constexpr std::int64_t kBytes = sizeof(FileReport);
  BUTTRESS_RETURN_IF_ERROR(control_
                               .AllGather({&report, kBytes, DType::kUInt8},
                                          {all.data(), kBytes * std::ssize(all), DType::kUInt8})
                               ->Wait(timeout_)
                               .Annotate("files of the checkpoint"));
  double seconds = 0;
  for (int rank = 0; rank < control_.size(); ++rank) {
    const FileReport& file = all[static_cast<std::size_t>(rank)];
    seconds = std::max(seconds, file.seconds);
    if (file.bytes < 0) continue;
    files.push_back({FileOf(rank), static_cast<std::uint64_t>(file.bytes),
                     std::string(file.sha256.data(), file.sha256.size())});
  }
  return seconds;
}

Status CheckpointStore::Accepted(std::int64_t step, const KeptSteps& kept) {
  BUTTRESS_RETURN_IF_ERROR(MarkAccepted(folder_, step));
  Failpoint("checkpoint_delete");
  DeleteOldCheckpoints(folder_, keep_last_, kept);
  return OkStatus();
}

Status CheckpointStore::StartFrom(std::int64_t step, std::uint64_t epoch) {
  BUTTRESS_RETURN_IF_ERROR(PutCheckpointsAside(folder_, step, epoch, damaged_));
  return step == 0 ? OkStatus() : MarkStart(folder_, step);
}

Result<std::optional<StoredCheckpoint>> CheckpointStore::Find(std::int64_t before) {
  BUTTRESS_RETURN_IF_ERROR(FindRanks());
  if (leads()) PutMovedBack(folder_);
  std::vector<std::int64_t> steps =
      leads() ? CheckpointSteps(folder_) : std::vector<std::int64_t>();
  std::erase_if(steps, [before](std::int64_t step) { return step >= before; });
  for (std::size_t next = 0;; ++next) {
    std::int64_t step = next < steps.size() ? steps[next] : -1;
    BUTTRESS_RETURN_IF_ERROR(control_.Broadcast({&step, 1, DType::kInt64}, 0)
                                 ->Wait(timeout_)
                                 .Annotate("newest checkpoint"));
    if (step < 0) return std::optional<StoredCheckpoint>();
    auto found = Check(step);
    if (found.ok()) return std::optional(*std::move(found));
    const std::string folder = CheckpointFolderOf(folder_, step);
    if (found.status().code() == StatusCode::kInvalidArgument)
      return found.status().Annotate("the checkpoint " + folder);
    if (leads()) {
      damaged_.insert(step);
      Log(kWarn, "incomplete checkpoint skipped",
          {{"folder", folder}, {"why", found.status().message()}});
    }
  }
}

// Checks the files of a checkpoint, each on one of the ranks that see them.
Result<StoredCheckpoint> CheckpointStore::Check(std::int64_t step) const {
  const std::string folder = CheckpointFolderOf(folder_, step);
  Result<std::string> text = std::string();
  if (leads()) text = ReadFile(JoinPath(folder, kCheckpointStateName), kMaxCheckpointStateBytes);
  BUTTRESS_RETURN_IF_ERROR(Agree(text.status()));
  BUTTRESS_ASSIGN_OR_RETURN(*text, BroadcastBytes(control_, *std::move(text), 0, timeout_));
  BUTTRESS_ASSIGN_OR_RETURN(StoredCheckpoint checkpoint, ParseCheckpoint(*text));
  if (checkpoint.state.step != step) return DataLoss("its step differs from its name");
  checkpoint.folder = folder;
  const std::vector<int> seeing = SeeingRanks();
  WeightManifest own;
  for (std::size_t i = 0; i < checkpoint.files.size(); ++i) {
    if (seeing[i % seeing.size()] == control_.rank()) own.files.push_back(checkpoint.files[i]);
  }
  BUTTRESS_RETURN_IF_ERROR(Agree(VerifyFiles(folder, own)));
  return checkpoint;
}

Status CheckpointStore::Read(const StoredCheckpoint& checkpoint,
                             const std::vector<ParameterUnit>& units, AdamW& optimizer) {
  const StoredLayout layout = LayoutOf(units);
  if (Status same = CompareLayouts(checkpoint.layout, layout); !same.ok()) {
    return same.Annotate(c10::str("the checkpoint ", checkpoint.folder,
                                  " is of another model than run.model.path; restore the setting, "
                                  "or set local.out to another folder"));
  }
  const int rank = control_.rank();
  const std::vector<HeldValues> held = HeldBy(units, optimizer);
  std::optional<StoredShards> shards;
  const auto read = [&]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(
        shards, StoredShards::Open(checkpoint.folder, checkpoint.files, checkpoint.layout));
    for (const HeldValues& values : held) {
      BUTTRESS_RETURN_IF_ERROR(
          ReadValues(*shards, values, layout[values.index], values.BeginOn(rank), values.values));
    }
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(
      Agree(Sees(rank) ? read() : OkStatus()).Annotate("the checkpoint " + checkpoint.folder));
  BUTTRESS_RETURN_IF_ERROR(GiveValuesToOthers(shards, layout, held));
  optimizer.Resume(checkpoint.optimizer_steps);
  return OkStatus();
}

// Rank 0 reads for the ranks that do not see the folder.
Status CheckpointStore::GiveValuesToOthers(const std::optional<StoredShards>& shards,
                                           const StoredLayout& layout,
                                           const std::vector<HeldValues>& held) const {
  const at::NoGradGuard no_grad;
  for (int rank = 0; rank < control_.size(); ++rank) {
    if (Sees(rank)) continue;
    for (const HeldValues& values : held) {
      const at::Tensor own = values.values.detach();
      const at::Tensor host = at::zeros(own.sizes(), own.options().device(at::kCPU));
      Status read;
      if (leads())
        read = ReadValues(*shards, values, layout[values.index], values.BeginOn(rank), host);
      BUTTRESS_RETURN_IF_ERROR(Agree(read));
      BUTTRESS_RETURN_IF_ERROR(control_.Broadcast(BufferOf(host), 0)->Wait(timeout_));
      if (control_.rank() == rank) own.copy_(host);
    }
  }
  return OkStatus();
}

}  // namespace buttress
