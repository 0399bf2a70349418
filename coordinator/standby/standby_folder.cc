#include "coordinator/standby/standby_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "coordinator/standby/file_record.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kLedgerFile[] = "ledger.db";

std::string MarkPath(const std::string& folder) { return JoinPath(folder, "standby.json"); }

struct Mark {
  std::string run_id;
  bool level = false;
};

// kNotFound without the file.
Result<Mark> ReadMark(const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(MarkPath(folder)));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return DataLoss(MarkPath(folder) + " is damaged; delete the folder");
  return Mark{json.value("run_id", ""), json.value("level", false)};
}

Status DiskError(const std::string& path) {
  const int error = errno;
  const std::string message = path + ": " + std::strerror(error);
  return error == ENOSPC || error == EDQUOT ? ResourceExhausted(message) : Unavailable(message);
}

// A record names the database, its log, or a file of one of the two folders.
bool IsFollowed(const std::string& name) {
  if (name == kLedgerFile || name == std::string(kLedgerFile) + "-wal") return true;
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
  const auto mark = ReadMark(folder);
  if (!mark.ok() && mark.status().code() != StatusCode::kNotFound) return mark.status();
  if (std::error_code ignored; !mark.ok() && fs::exists(ledger, ignored)) {
    return InvalidArgument(folder +
                           " has a run of its own, which a standby would replace; give the standby "
                           "another folder (local.out)");
  }
  BUTTRESS_ASSIGN_OR_RETURN(LedgerLock lock, LedgerLock::Take(ledger));
  StandbyFolder opened(folder, std::move(lock));
  if (mark.ok()) {
    opened.run_id_ = mark->run_id;
    opened.level_ = mark->level;
  }
  return opened;
}

Status StandbyFolder::Begin(const std::string& run_id) {
  if (level_ && run_id != run_id_) {
    return InvalidArgument(fmt::format(
        "{} has the copy of run {}, and the coordinator that answers has run {}, as after the loss "
        "of its disk: start a coordinator on this folder, or give the standby another one "
        "(local.out)",
        folder_, run_id_, run_id));
  }
  run_id_ = run_id;
  level_ = false;
  number_ = 0;
  BUTTRESS_RETURN_IF_ERROR(WriteMark());
  return Clear();
}

Status StandbyFolder::Clear() {
  open_.clear();
  for (const char* name : {kLedgerFile, "ledger.db-wal", "ledger.db-shm", "payloads", "archive"}) {
    std::error_code error;
    fs::remove_all(JoinPath(folder_, name), error);
    if (error) return Unavailable(JoinPath(folder_, name) + ": " + error.message());
  }
  return SyncFolder(folder_);
}

Status StandbyFolder::WriteMark() const {
  const nlohmann::ordered_json json = {{"run_id", run_id_}, {"level", level_}};
  return WriteFileAtomic(MarkPath(folder_), json.dump() + "\n");
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
      level_ = true;
      BUTTRESS_RETURN_IF_ERROR(WriteMark());
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
  const std::string path = JoinPath(folder_, name);
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
    if (count < 0) return DiskError(JoinPath(folder_, record.file()));
    done += static_cast<std::size_t>(count);
  }
  return OkStatus();
}

Status StandbyFolder::Truncate(const v1::FollowResponse& record) {
  BUTTRESS_ASSIGN_OR_RETURN(File* const file, Find(record.file()));
  const bool cut = ::ftruncate(file->descriptor.get(), static_cast<off_t>(record.offset())) == 0;
  return cut ? OkStatus() : DiskError(JoinPath(folder_, record.file()));
}

Status StandbyFolder::Sync(const std::string& name) {
  BUTTRESS_ASSIGN_OR_RETURN(File* const file, Find(name));
  const std::string path = JoinPath(folder_, name);
  if (!SyncDescriptor(file->descriptor.get())) return DiskError(path);
  if (!std::exchange(file->is_new, false)) return OkStatus();
  return SyncFolder(fs::path(path).parent_path().string());
}

Status StandbyFolder::Remove(const std::string& name) {
  open_.erase(name);
  const std::string path = JoinPath(folder_, name);
  if (::unlink(path.c_str()) != 0) return errno == ENOENT ? OkStatus() : DiskError(path);
  return SyncFolder(fs::path(path).parent_path().string());
}

Status CheckPromotable(const std::string& folder) {
  const auto mark = ReadMark(folder);
  if (mark.status().code() == StatusCode::kNotFound) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(mark.status());
  if (mark->level) return OkStatus();
  return InvalidArgument(
      folder +
      " has a standby's copy that is not whole: the standby was still receiving it; start "
      "`coordinator --standby` on it again, or restore a backup");
}

Status Promote(const std::string& folder) {
  const auto mark = ReadMark(folder);
  if (mark.status().code() == StatusCode::kNotFound) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(mark.status());
  Log(kWarn, "a standby's copy becomes the run's own folder",
      {{"folder", folder}, {"run_id", mark->run_id}});
  if (::unlink(MarkPath(folder).c_str()) != 0) return DiskError(MarkPath(folder));
  return SyncFolder(folder);
}

}  // namespace buttress
