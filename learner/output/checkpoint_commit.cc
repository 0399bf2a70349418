#include "learner/output/checkpoint_commit.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "learner/output/kept_folders.h"
#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartPrefix = "part";
constexpr std::string_view kMovedSuffix = "-before";

bool Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0;
}

Status RenameError(const std::string& from, const std::string& to) {
  return Unavailable("cannot rename " + from + " to " + to + ": " + std::strerror(errno));
}

Status RemoveParts(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kPartPrefix)) fs::remove_all(it->path(), error);
  }
  return error ? Unavailable("cannot remove what an earlier checkpoint left in " + folder + ": " +
                             error.message())
               : OkStatus();
}

// Whoever has trained the step again after this learner was replaced knows better.
Status CheckIsNewest(const StoredCheckpoint& checkpoint, const std::string& folder) {
  const auto other = EpochOfWriter(folder);
  if (!other || *other <= checkpoint.state.learner_epoch) return OkStatus();
  return FailedPrecondition(
      fmt::format("{} is of learner epoch {}, which has replaced epoch {}: this process must exit",
                  folder, *other, checkpoint.state.learner_epoch));
}

// Moves the checkpoint that `folder` has, which exists if the run went back and trained the step
// again. It is examined afterwards: while this process stood still, another learner may have
// replaced it and written the step.
Status MoveBefore(const StoredCheckpoint& checkpoint, const std::string& folder,
                  const std::string& to) {
  if (!Rename(folder, to)) return errno == ENOENT ? OkStatus() : RenameError(folder, to);
  if (CheckIsNewest(checkpoint, to).ok()) return OkStatus();
  return CheckIsNewest(checkpoint, Rename(to, folder) ? folder : to);
}

}  // namespace

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
    if (Rename(path.string(), whole))
      Log(kWarn, "a checkpoint that a killed learner had moved is back", {{"folder", whole}});
  }
}

std::string PartFolderOf(const std::string& folder, const CheckpointState& state) {
  return JoinPath(folder, fmt::format("{}-{}-{}", kPartPrefix, state.learner_epoch, state.step));
}

Status MakePartFolder(const std::string& folder, const std::string& part) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  PutMovedBack(folder);
  BUTTRESS_RETURN_IF_ERROR(RemoveParts(folder));
  return MakeFolders(part);
}

Status CommitCheckpoint(const std::string& folder, StoredCheckpoint& checkpoint) {
  const std::string& part = checkpoint.folder;
  const std::string final_folder = CheckpointFolderOf(folder, checkpoint.state.step);
  const std::string json = CheckpointToJson(checkpoint);
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(part, kCheckpointStateName), json));
  CompleteState(json, checkpoint);
  BUTTRESS_RETURN_IF_ERROR(CheckIsNewest(checkpoint, final_folder));
  Failpoint("before_checkpoint");
  const std::string before = fmt::format("{}{}", part, kMovedSuffix);
  BUTTRESS_RETURN_IF_ERROR(MoveBefore(checkpoint, final_folder, before));
  Failpoint("checkpoint_rename");
  if (!Rename(part, final_folder)) return RenameError(part, final_folder);
  std::error_code ignored;
  fs::remove_all(before, ignored);
  Failpoint("checkpoint_sync");
  return SyncFolder(folder);
}

}  // namespace buttress
