#include "lib/ledger/archive.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/schema.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

struct FileDigest {
  std::uint64_t bytes = 0;
  std::string sha256;

  bool operator==(const FileDigest&) const = default;
};

// kNotFound without the file.
Result<FileDigest> DigestOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string message = path + ": " + std::strerror(errno);
    return errno == ENOENT ? NotFound(message) : Unavailable(message);
  }
  FileDigest digest;
  Sha256 sum;
  std::string chunk(std::size_t{1} << 20, '\0');
  ssize_t count = 0;
  while ((count = read(fd, chunk.data(), chunk.size())) > 0) {
    digest.bytes += static_cast<std::uint64_t>(count);
    sum.Update({chunk.data(), static_cast<std::size_t>(count)});
  }
  const int error = errno;
  close(fd);
  if (count < 0) return Unavailable(path + ": " + std::strerror(error));
  digest.sha256 = sum.Finish();
  return digest;
}

Status SyncWholeFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Unavailable(path + ": " + std::strerror(errno));
  const bool synced = SyncDescriptor(fd);
  const int error = errno;
  close(fd);
  return synced ? OkStatus() : Unavailable(path + ": " + std::strerror(error));
}

// Copies the rows to the attached database `archive`. Its tables are those of the ledger.
Status CopyRows(Database& ledger, const ArchiveRow& row) {
  // The file is synced as a whole once it is complete.
  std::string sql = fmt::format(
      "PRAGMA archive.journal_mode = OFF; PRAGMA archive.synchronous = OFF;"
      "PRAGMA archive.application_id = {}; PRAGMA archive.user_version = {}; BEGIN;",
      kLedgerApplicationId, kLedgerVersion);
  for (const std::string table : {"groups", "accepted"}) {
    const std::string begin = "CREATE TABLE " + table;
    BUTTRESS_RETURN_IF_ERROR(ledger.ForEach(
        "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?",
        [&](const Statement& schema) {
          sql += "CREATE TABLE archive." + table + schema.Text(0).substr(begin.size()) + ";";
          return OkStatus();
        },
        table));
    sql += fmt::format(
        "INSERT INTO archive.{0} SELECT * FROM main.{0} WHERE group_id BETWEEN {1} AND {2};", table,
        row.first_group, row.last_group);
  }
  sql += "CREATE INDEX archive.groups_by_step ON groups (step); COMMIT;";
  const Status status = ledger.Execute(sql);
  if (!status.ok()) ledger.Execute("ROLLBACK").IgnoreError();
  return status;
}

Status CopyToFile(Database& ledger, const std::string& path, const ArchiveRow& row) {
  BUTTRESS_RETURN_IF_ERROR(ledger.Attach(path, "archive"));
  const Status copied = CopyRows(ledger, row);
  BUTTRESS_RETURN_IF_ERROR(ledger.Execute("DETACH archive"));
  BUTTRESS_RETURN_IF_ERROR(copied);
  return SyncWholeFile(path);
}

// The steps of the groups that count at one.
Status SetSteps(Database& ledger, ArchiveRow& row) {
  return ledger.ForEach(
      "SELECT IFNULL(MIN(step), 0), IFNULL(MAX(step), 0) FROM groups WHERE group_id BETWEEN ? AND "
      "? AND step > 0",
      [&](const Statement& steps) {
        steps.Read(row.first_step, row.last_step);
        return OkStatus();
      },
      row.first_group, row.last_group);
}

}  // namespace

std::string ArchiveFolder(const std::string& ledger_path) {
  const std::string folder = fs::path(ledger_path).parent_path().string();
  return JoinPath(folder.empty() ? "." : folder, "archive");
}

std::string ArchivePath(const std::string& ledger_path, std::uint64_t number) {
  return JoinPath(ArchiveFolder(ledger_path), fmt::format("{:08}.db", number));
}

Result<std::unique_ptr<Database>> OpenArchive(const std::string& ledger_path,
                                              const ArchiveRow& row) {
  const std::string path = ArchivePath(ledger_path, row.number);
  const std::string has = fmt::format("; it has the groups {} to {}: put it back from a backup",
                                      row.first_group, row.last_group);
  const auto found = DigestOf(path);
  if (found.status().code() == StatusCode::kNotFound)
    return DataLoss(found.status().message() + has);
  BUTTRESS_RETURN_IF_ERROR(found.status());
  if (*found != FileDigest{row.bytes, row.sha256}) {
    return DataLoss(fmt::format("{} is damaged: its {} bytes are not the {} that were written{}",
                                path, found->bytes, row.bytes, has));
  }
  return Database::Open(path, DatabaseMode::kReadOnly);
}

Status WriteArchive(Database& ledger, const std::string& ledger_path, ArchiveRow& row) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(ArchiveFolder(ledger_path)));
  const std::string path = ArchivePath(ledger_path, row.number);
  const std::string part = path + ".part";
  if (::unlink(part.c_str()) != 0 && errno != ENOENT)
    return Unavailable(part + ": " + std::strerror(errno));
  BUTTRESS_RETURN_IF_ERROR(SetSteps(ledger, row));
  if (Status copied = CopyToFile(ledger, part, row); !copied.ok()) {
    ::unlink(part.c_str());
    return copied.Annotate(path);
  }
  BUTTRESS_ASSIGN_OR_RETURN(FileDigest digest, DigestOf(part));
  row.bytes = digest.bytes;
  row.sha256 = std::move(digest.sha256);
  if (std::rename(part.c_str(), path.c_str()) != 0)
    return Unavailable(path + ": " + std::strerror(errno));
  return SyncFolder(ArchiveFolder(ledger_path));
}

}  // namespace buttress
