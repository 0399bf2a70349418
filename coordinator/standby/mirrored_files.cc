#include "coordinator/standby/mirrored_files.h"

#include <filesystem>
#include <utility>

namespace buttress {
namespace {

namespace fs = std::filesystem;

// A change is told once it is done, so that whoever copies the file from then on has it.
class MirroredFile final : public ForwardingFile {
 public:
  MirroredFile(OpenSqliteFile real, std::string name, const FileChange& change)
      : ForwardingFile(std::move(real)), name_(std::move(name)), change_(change) {}

  int Write(const void* from, int size, sqlite3_int64 offset) override {
    const int code = ForwardingFile::Write(from, size, offset);
    if (code == SQLITE_OK) {
      change_(v1::FILE_OPERATION_WRITE, name_, static_cast<std::uint64_t>(offset),
              {static_cast<const char*>(from), static_cast<std::size_t>(size)});
    }
    return code;
  }

  int Truncate(sqlite3_int64 size) override {
    const int code = ForwardingFile::Truncate(size);
    if (code == SQLITE_OK)
      change_(v1::FILE_OPERATION_TRUNCATE, name_, static_cast<std::uint64_t>(size), {});
    return code;
  }

  int Sync(int flags) override {
    const int code = ForwardingFile::Sync(flags);
    if (code == SQLITE_OK) change_(v1::FILE_OPERATION_SYNC, name_, 0, {});
    return code;
  }

 private:
  const std::string name_;
  const FileChange& change_;
};

}  // namespace

// SQLite names a file by its absolute path.
MirroredFiles::MirroredFiles(std::string folder, FileChange change)
    : SqliteLayer("buttress_mirrored", Use::kDefault),
      ledger_((fs::weakly_canonical(folder) / "ledger.db").string()),
      change_(std::move(change)) {}

int MirroredFiles::Open(sqlite3_filename name, int flags, int* out_flags,
                        std::unique_ptr<SqliteFile>& file) {
  OpenSqliteFile real;
  const int code = OpenBelow(name, flags, out_flags, real);
  if (code != SQLITE_OK) return code;
  const std::string followed = name == nullptr ? "" : FollowedName(name);
  if (followed.empty()) {
    file = std::make_unique<ForwardingFile>(std::move(real));
  } else {
    file = std::make_unique<MirroredFile>(std::move(real), followed, change_);
  }
  return SQLITE_OK;
}

int MirroredFiles::Delete(const char* name, int sync_folder) {
  const int code = SqliteLayer::Delete(name, sync_folder);
  const std::string followed = FollowedName(name);
  if (code == SQLITE_OK && !followed.empty()) change_(v1::FILE_OPERATION_REMOVE, followed, 0, {});
  return code;
}

std::string MirroredFiles::FollowedName(const char* path) const {
  std::error_code ignored;
  const std::string full = fs::weakly_canonical(path, ignored).string();
  if (full != ledger_ && full != ledger_ + "-wal") return {};
  return fs::path(full).filename().string();
}

}  // namespace buttress
