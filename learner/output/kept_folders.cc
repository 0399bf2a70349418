#include "learner/output/kept_folders.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "learner/output/checkpoint_state.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = "accepted";
constexpr char kAside[] = "aside-";

std::string MarkOf(const std::string& folder, std::int64_t step) {
  return JoinPath(CheckpointFolderOf(folder, step), kMark);
}

bool IsMarked(const std::string& folder, std::int64_t step) {
  std::error_code ignored;
  return fs::exists(MarkOf(folder, step), ignored);
}

// Says so: a file that is missed later has an account.
void Delete(const std::string& path, const char* why) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    Log(kWarn, "a checkpoint cannot be deleted", {{"folder", path}, {"why", error.message()}});
  } else {
    Log(kInfo, "a checkpoint is deleted", {{"folder", path}, {"why", why}});
  }
}

Status CheckWriters(const std::string& folder, const std::vector<std::int64_t>& steps,
                    std::uint64_t epoch) {
  for (const std::int64_t step : steps) {
    const std::string path = CheckpointFolderOf(folder, step);
    const auto writer = EpochOfWriter(path);
    if (!writer || *writer <= epoch) continue;
    return FailedPrecondition(fmt::format(
        "{} is of learner epoch {}, which has replaced epoch {}: this process must exit. If an "
        "older ledger was put back instead, move this checkpoint out of the folder",
        path, *writer, epoch));
  }
  return OkStatus();
}

std::vector<std::string> AsideFolders(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kAside)) found.push_back(it->path().string());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::optional<std::uint64_t> EpochOfWriter(const std::string& path) {
  const auto text = ReadFile(JoinPath(path, kCheckpointStateName), kMaxCheckpointStateBytes);
  if (!text.ok()) return std::nullopt;
  const auto checkpoint = ParseCheckpoint(*text);
  return checkpoint.ok() ? std::optional(checkpoint->state.learner_epoch) : std::nullopt;
}

Status MarkAccepted(const std::string& folder, std::int64_t step) {
  return IsMarked(folder, step) ? OkStatus() : WriteFileAtomic(MarkOf(folder, step), "");
}

Status MarkStart(const std::string& folder, std::int64_t step) {
  const std::vector<std::int64_t> steps = CheckpointSteps(folder);
  const auto is_marked = [&folder](std::int64_t other) { return IsMarked(folder, other); };
  if (std::ranges::any_of(steps, is_marked)) return MarkAccepted(folder, step);
  for (const std::int64_t other : steps) BUTTRESS_RETURN_IF_ERROR(MarkAccepted(folder, other));
  return OkStatus();
}

void DeleteOldCheckpoints(const std::string& folder, std::int64_t keep_last,
                          const KeptSteps& kept) {
  std::vector<std::int64_t> marked;
  for (const std::int64_t step : CheckpointSteps(folder)) {
    if (IsMarked(folder, step)) marked.push_back(step);
  }
  if (std::ssize(marked) < keep_last) return;
  const std::int64_t oldest = marked[static_cast<std::size_t>(keep_last) - 1];
  if (CheckpointSteps(folder).back() == oldest) return;
  const std::set<std::int64_t> stay = kept(marked);
  for (const std::int64_t step : CheckpointSteps(folder)) {
    if (step < oldest && !stay.contains(step))
      Delete(CheckpointFolderOf(folder, step), "newer ones are kept");
  }
}

Status PutCheckpointsAside(const std::string& folder, std::int64_t step, std::uint64_t epoch,
                           const std::set<std::int64_t>& damaged) {
  std::vector<std::int64_t> newer = CheckpointSteps(folder);
  std::erase_if(newer, [step](std::int64_t other) { return other <= step; });
  if (newer.empty()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(CheckWriters(folder, newer, epoch));
  std::set<std::string> left;
  bool has_damaged = false, has_other = false;
  for (const std::int64_t put : newer) {
    const bool is_damaged = damaged.contains(put);
    const std::string aside = JoinPath(folder, fmt::format("{}step-{}", kAside, put));
    std::error_code ignored;  // the rename says why
    fs::remove_all(aside, ignored);
    if (std::rename(CheckpointFolderOf(folder, put).c_str(), aside.c_str()) != 0)
      return Unavailable("cannot rename a checkpoint to " + aside + ": " + std::strerror(errno));
    Log(kWarn, "a checkpoint that the run goes on without is put aside",
        {{"folder", aside}, {"damaged", is_damaged}});
    bool& has = is_damaged ? has_damaged : has_other;
    if (!has) left.insert(aside);
    has = true;
  }
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(folder));
  for (const std::string& path : AsideFolders(folder))
    if (!left.contains(path)) Delete(path, "a newer one is put aside");
  return OkStatus();
}

}  // namespace buttress
