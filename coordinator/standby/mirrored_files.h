// The layer under SQLite that tells a mirror of every change of the ledger's files (mirror.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/ledger/sqlite_layer.h"

namespace buttress {

// Told of what has been done to `file`, which is "ledger.db" or "ledger.db-wal".
using FileChange = std::function<void(v1::FileOperation operation, const std::string& file,
                                      std::uint64_t offset, std::string data)>;

// The default layer while it lives.
class MirroredFiles final : public SqliteLayer {
 public:
  MirroredFiles(std::string folder, FileChange change);

  int Open(sqlite3_filename name, int flags, int* out_flags,
           std::unique_ptr<SqliteFile>& file) override;
  int Delete(const char* name, int sync_folder) override;

 private:
  // Returns the name in the folder of the run; empty for a file that is not followed.
  std::string FollowedName(const char* path) const;

  const std::string ledger_;
  const FileChange change_;
};

}  // namespace buttress
