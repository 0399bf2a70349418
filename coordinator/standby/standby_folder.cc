#include "coordinator/standby/standby_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "coordinator/standby/file_record.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kLedgerFile[] = "ledger.db";
constexpr char kLogFile[] = "ledger.db-wal";

Status DiskError(const std::string& path) {
  const int error = errno;
  const std::string message = path + ": " + std::strerror(error);
  return error == ENOSPC || error == EDQUOT ? ResourceExhausted(message) : Unavailable(message);
}

bool IsDatabase(const std::string& name) { return name == kLedgerFile || name == kLogFile; }

// A record names the database, its log, or a file of one of the two folders.
bool IsFollowed(const std::string& name) {
  if (IsDatabase(name)) return true;
  const std::size_t slash = name.find('/');
  const std::string folder = name.substr(0, slash);
  return (folder == "payloads" || folder == "archive") && slash != std::string::npos &&
         name.find('/', slash + 1) == std::string::npos && name[slash + 1] != '.' &&
         slash + 1 < name.size();
}

}  // namespace

Result<StandbyFolder> StandbyFolder::Open(const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string ledger = JoinPath(folder, kLedgerFile);
  const auto mark = ReadCopyMark(folder);
  if (!mark.ok() && mark.status().code() != StatusCode::kNotFound) return mark.status();
  if (std::error_code ignored; !mark.ok() && fs::exists(ledger, ignored)) {
    return InvalidArgument(folder +
                           " has a run of its own, which a standby would replace; give the standby "
                           "another folder (local.out)");
  }
  BUTTRESS_ASSIGN_OR_RETURN(LedgerLock lock, LedgerLock::Take(ledger));
  StandbyFolder opened(folder, std::move(lock), mark.ok() ? *mark : CopyMark());
  // A coordinator that is started on a folder that never had a copy would begin another run.
  if (!mark.ok()) BUTTRESS_RETURN_IF_ERROR(WriteCopyMark(folder, opened.mark_));
  if (opened.mark_.state == CopyState::kMoving) {
    BUTTRESS_RETURN_IF_ERROR(MoveCopy(folder, opened.mark_.run_id));
    opened.mark_.state = CopyState::kWhole;
  }
  return opened;
}

Status StandbyFolder::Begin(const std::string& run_id) {
  if (whole() && run_id != mark_.run_id) {
    return InvalidArgument(fmt::format(
        "{} has the copy of run {}, and the coordinator that answers has run {}, as after the loss "
        "of its disk: start a coordinator on this folder, or give the standby another one "
        "(local.out)",
        folder_, mark_.run_id, run_id));
  }
  mark_.run_id = run_id;
  level_ = false;
  number_ = 0;
  open_.clear();
  std::error_code error;
  fs::remove_all(IncomingFolder(folder_), error);
  if (error) return Unavailable(IncomingFolder(folder_) + ": " + error.message());
  BUTTRESS_RETURN_IF_ERROR(WriteCopyMark(folder_, mark_));
  for (const char* name : {"archive", "payloads"})
    BUTTRESS_RETURN_IF_ERROR(MakeFolders(PathOf(name)));
  return OkStatus();
}

std::string StandbyFolder::PathOf(const std::string& name) const {
  return JoinPath(level_ ? folder_ : IncomingFolder(folder_), name);
}

Status StandbyFolder::BecomeLevel() {
  for (const char* name : {kLedgerFile, kLogFile}) BUTTRESS_RETURN_IF_ERROR(Sync(name));
  std::vector<std::string> unsynced;
  for (const auto& [name, file] : open_) unsynced.push_back(name);
  for (const std::string& name : unsynced) BUTTRESS_RETURN_IF_ERROR(Sync(name));
  for (const char* name : {"archive", "payloads", "."})
    BUTTRESS_RETURN_IF_ERROR(SyncFolder(PathOf(name)));
  BUTTRESS_RETURN_IF_ERROR(MoveCopy(folder_, mark_.run_id));
  mark_.state = CopyState::kWhole;
  level_ = true;
  return OkStatus();
}

Result<bool> StandbyFolder::Apply(const v1::FollowResponse& record) {
  BUTTRESS_RETURN_IF_ERROR(CheckFollows(record, number_));
  const bool ends = record.operation() == v1::FILE_OPERATION_TURN ||
                    record.operation() == v1::FILE_OPERATION_LEVEL;
  if (!ends && !IsFollowed(record.file()))
    return DataLoss(fmt::format("record {} names the file {}", record.number(), record.file()));
  number_ = record.number();
  switch (record.operation()) {
    case v1::FILE_OPERATION_WRITE:
      BUTTRESS_RETURN_IF_ERROR(Write(record));
      return false;
    case v1::FILE_OPERATION_TRUNCATE:
      BUTTRESS_RETURN_IF_ERROR(Truncate(record));
      return false;
    case v1::FILE_OPERATION_SYNC:
      BUTTRESS_RETURN_IF_ERROR(Sync(record.file()));
      return false;
    case v1::FILE_OPERATION_REMOVE:
      BUTTRESS_RETURN_IF_ERROR(Remove(record.file()));
      return false;
    case v1::FILE_OPERATION_LEVEL:
      BUTTRESS_RETURN_IF_ERROR(BecomeLevel());
      return true;
    case v1::FILE_OPERATION_TURN:
      return true;
    default:
      return DataLoss(fmt::format("record {} has the operation {}, which this build does not know",
                                  record.number(), static_cast<int>(record.operation())));
  }
}

Result<StandbyFolder::File*> StandbyFolder::Find(const std::string& name) {
  const auto found = open_.find(name);
  if (found != open_.end()) return &found->second;
  const std::string path = PathOf(name);
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(fs::path(path).parent_path().string()));
  const bool is_new = ::access(path.c_str(), F_OK) != 0;
  OwnedFd descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (descriptor.get() < 0) return DiskError(path);
  return &open_.emplace(name, File{std::move(descriptor), is_new}).first->second;
}

Status StandbyFolder::Write(const v1::FollowResponse& record) {
  BUTTRESS_ASSIGN_OR_RETURN(File* const file, Find(record.file()));
  const std::string& bytes = record.data();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(file->descriptor.get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(record.offset() + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskError(PathOf(record.file()));
    done += static_cast<std::size_t>(count);
  }
  return OkStatus();
}

Status StandbyFolder::Truncate(const v1::FollowResponse& record) {
  BUTTRESS_ASSIGN_OR_RETURN(File* const file, Find(record.file()));
  const bool cut = ::ftruncate(file->descriptor.get(), static_cast<off_t>(record.offset())) == 0;
  return cut ? OkStatus() : DiskError(PathOf(record.file()));
}

Status StandbyFolder::Sync(const std::string& name) {
  BUTTRESS_ASSIGN_OR_RETURN(File* const file, Find(name));
  const std::string path = PathOf(name);
  if (!SyncDescriptor(file->descriptor.get())) return DiskError(path);
  const bool was_new = std::exchange(file->is_new, false);
  if (!IsDatabase(name)) open_.erase(name);  // there may be more segments than descriptors
  return was_new ? SyncFolder(fs::path(path).parent_path().string()) : OkStatus();
}

Status StandbyFolder::Remove(const std::string& name) {
  open_.erase(name);
  const std::string path = PathOf(name);
  if (::unlink(path.c_str()) != 0) return errno == ENOENT ? OkStatus() : DiskError(path);
  return SyncFolder(fs::path(path).parent_path().string());
}

}  // namespace buttress
