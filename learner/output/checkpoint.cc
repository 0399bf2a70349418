#include "learner/output/checkpoint.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

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

namespace fs = std::filesystem;

constexpr std::string_view kPartPrefix = "part";
constexpr std::string_view kMovedSuffix = "-before";

std::string FileOf(int rank) { return c10::str("rank-", rank, ".safetensors"); }

// What a rank reports of its file.
struct FileReport {
  std::int64_t bytes = -1;  // -1: it writes none
  double seconds = 0;
  std::array<char, 32> sha256{};
};

Status RemoveParts(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kPartPrefix)) fs::remove_all(it->path(), error);
  }
  return error ? Unavailable(c10::str("cannot remove what an earlier checkpoint left in ", folder,
                                      ": ", error.message()))
               : OkStatus();
}

// Gives checkpoints their names back that a learner moved in a commit in which it was killed. Where
// another one has been written since, the rename fails, as its folder is not empty.
void PutMovedBack(const std::string& folder) {
  std::vector<fs::path> moved;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kPartPrefix) && name.ends_with(kMovedSuffix)) moved.push_back(it->path());
  }
  for (const fs::path& path : moved) {
    std::string name = path.filename().string();
    name.resize(name.size() - kMovedSuffix.size());  // part-<epoch>-<step>
    const std::string whole = JoinPath(folder, "step" + name.substr(name.rfind('-')));
    fs::rename(path, whole, error);
    if (!error)
      Log(kWarn, "a checkpoint that a killed learner had moved is back", {{"folder", whole}});
  }
}

// Whoever has trained the step again after this learner was replaced knows better.
Status CheckIsNewest(const StoredCheckpoint& checkpoint, const std::string& folder) {
  const auto other = EpochOfWriter(folder);
  if (!other || *other <= checkpoint.state.learner_epoch) return OkStatus();
  return FailedPrecondition(c10::str(folder, " is of learner epoch ", *other,
                                     ", which has replaced epoch ", checkpoint.state.learner_epoch,
                                     ": this process must exit"));
}

// Moves the checkpoint that `folder` has, which exists if the run went back and trained the step
// again. It is examined afterwards: while this process stood still, another learner may have
// replaced it and written the step.
Status MoveBefore(const StoredCheckpoint& checkpoint, const std::string& folder,
                  const std::string& to) {
  std::error_code error;
  fs::rename(folder, to, error);
  if (error == std::errc::no_such_file_or_directory) return OkStatus();
  if (error) return Unavailable("cannot rename " + folder + " to " + to + ": " + error.message());
  if (CheckIsNewest(checkpoint, to).ok()) return OkStatus();
  fs::rename(to, folder, error);
  return CheckIsNewest(checkpoint, error ? to : folder);
}

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

// Its name is used once, so that no machine has cached another folder under it.
Status CheckpointStore::MakePart(const std::string& part) const {
  if (leads()) {
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder_));
    PutMovedBack(folder_);
    BUTTRESS_RETURN_IF_ERROR(RemoveParts(folder_));
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(part));
  }
  return OkStatus();
}

Status CheckpointStore::Begin(const CheckpointState& state, const std::vector<ParameterUnit>& units,
                              const AdamW& optimizer) {
  BUTTRESS_CHECK(!writing(), "one checkpoint is written at a time");
  BUTTRESS_RETURN_IF_ERROR(FindRanks());
  auto writing = std::make_unique<Writing>();
  writing->checkpoint = {
      state,
      optimizer.steps(),
      {},
      LayoutOf(units),
      JoinPath(folder_, c10::str(kPartPrefix, "-", state.learner_epoch, "-", state.step))};
  const std::string& part = writing->checkpoint.folder;
  BUTTRESS_RETURN_IF_ERROR(Agree(MakePart(part)));
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
  if (leads()) status = Commit(checkpoint);
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

// Writes checkpoint.json and makes the folder a checkpoint.
Status CheckpointStore::Commit(StoredCheckpoint& checkpoint) const {
  const std::string& part = checkpoint.folder;
  const std::string final_folder = CheckpointFolderOf(folder_, checkpoint.state.step);
  const std::string json = CheckpointToJson(checkpoint);
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(part, kCheckpointStateName), json));
  CompleteState(json, checkpoint);
  BUTTRESS_RETURN_IF_ERROR(CheckIsNewest(checkpoint, final_folder));
  Failpoint("before_checkpoint");
  const std::string before = c10::str(part, kMovedSuffix);
  BUTTRESS_RETURN_IF_ERROR(MoveBefore(checkpoint, final_folder, before));
  Failpoint("checkpoint_rename");
  std::error_code error;
  fs::rename(part, final_folder, error);
  if (error)
    return Unavailable("cannot rename " + part + " to " + final_folder + ": " + error.message());
  fs::remove_all(before, error);
  Failpoint("checkpoint_sync");
  return SyncFolder(folder_);
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
