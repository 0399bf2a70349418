#include "coordinator/standby/copy_mark.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/ledger/ledger_lock.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kStateNames = {"none", "whole", "moving"};

std::string MarkPath(const std::string& folder) { return JoinPath(folder, "standby.json"); }

Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Unavailable(path + ": " + error.message()) : OkStatus();
}

// Returns the seconds since something was written to the copy.
std::int64_t SecondsOld(const std::string& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(JoinPath(folder, "ledger.db-wal"), error);
  if (error) return 0;
  const auto age = fs::file_time_type::clock::now() - written;
  return std::chrono::duration_cast<std::chrono::seconds>(age).count();
}

}  // namespace

std::string IncomingFolder(const std::string& folder) { return JoinPath(folder, "incoming"); }

Result<CopyMark> ReadCopyMark(const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(MarkPath(folder)));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_object()) {
    const auto name = std::ranges::find(kStateNames, json.value("copy", ""));
    if (name != kStateNames.end())
      return CopyMark{json.value("run_id", ""), static_cast<CopyState>(name - kStateNames.begin())};
  }
  return DataLoss(MarkPath(folder) +
                  " is damaged; give the standby an empty folder, or restore a backup");
}

Status WriteCopyMark(const std::string& folder, const CopyMark& mark) {
  const nlohmann::ordered_json json = {{"run_id", mark.run_id},
                                       {"copy", kStateNames[static_cast<std::size_t>(mark.state)]}};
  return WriteFileAtomic(MarkPath(folder), json.dump() + "\n");
}

Status MoveCopy(const std::string& folder, const std::string& run_id) {
  BUTTRESS_RETURN_IF_ERROR(WriteCopyMark(folder, {run_id, CopyState::kMoving}));
  for (const char* name : kCopied) {
    const std::string from = JoinPath(IncomingFolder(folder), name), to = JoinPath(folder, name);
    std::error_code error;
    if (!fs::exists(from, error)) continue;  // it was moved before a crash
    BUTTRESS_RETURN_IF_ERROR(RemoveTree(to));
    fs::rename(from, to, error);
    if (error) return Unavailable(to + ": " + error.message());
  }
  BUTTRESS_RETURN_IF_ERROR(RemoveTree(JoinPath(folder, "ledger.db-shm")));
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(folder));
  BUTTRESS_RETURN_IF_ERROR(WriteCopyMark(folder, {run_id, CopyState::kWhole}));
  return RemoveTree(IncomingFolder(folder));
}

Status PrepareToPromote(const std::string& folder) {
  const auto mark = ReadCopyMark(folder);
  if (mark.status().code() == StatusCode::kNotFound) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(mark.status());
  if (mark->state == CopyState::kNone) {
    return InvalidArgument(
        folder +
        " has a standby's first copy, which is not whole; start `coordinator --standby` on it "
        "again, or restore a backup");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerLock lock, LedgerLock::Take(JoinPath(folder, "ledger.db")));
  if (mark->state == CopyState::kMoving) return MoveCopy(folder, mark->run_id);
  std::error_code ignored;
  if (fs::exists(IncomingFolder(folder), ignored)) {
    Log(kWarn,
        "a newer copy is not whole; the coordinator starts on the one before, and the run loses "
        "what it did since that was written",
        {{"folder", folder}, {"seconds", SecondsOld(folder)}});
  }
  return RemoveTree(IncomingFolder(folder));
}

Status Promote(const std::string& folder) {
  const auto mark = ReadCopyMark(folder);
  if (mark.status().code() == StatusCode::kNotFound) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(mark.status());
  Log(kWarn, "a standby's copy becomes the run's own folder",
      {{"folder", folder}, {"run_id", mark->run_id}, {"last_change_s_ago", SecondsOld(folder)}});
  if (::unlink(MarkPath(folder).c_str()) != 0)
    return Unavailable(MarkPath(folder) + ": " + std::strerror(errno));
  return SyncFolder(folder);
}

}  // namespace buttress
