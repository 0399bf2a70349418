// The write-ahead log in the layer of checked_files.h
// (https://www.sqlite.org/fileformat2.html#the_write_ahead_log), and the memory of where it ends in
// the file <ledger>.lock.
//
// SQLite takes the first frame without a right checksum for the log's end. That is right only
// behind the last one that was synced: before it, it is damage, which a recovery of the log finds.
// Later SQLite reads pages and checks nothing; a read of the layer does.
//
// The number of the last transaction (ledger_lock.h) does not say that the log is whole. A process
// that dies while SQLite copies the log into the database leaves some pages there, perhaps the one
// with the number, and needs all frames of the log for the others. So a sync of the log remembers
// how long it is, before anything of it is acknowledged or copied.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/ledger/sqlite_layer.h"

namespace buttress {

// REQUIRES: `path` is that of a ledger with "-wal" behind it.
std::unique_ptr<SqliteFile> CheckedLog(OpenSqliteFile real, const std::string& path);

struct LogEnd {
  std::uint64_t salts = 0;   // of the log's header: one that begins anew has others
  std::uint32_t frames = 0;  // up to its last commit that is synced

  bool operator==(const LogEnd&) const = default;
};

// How long the memory lasts.
enum class Lasts : std::uint8_t { kBeyondProcess, kBeyondPower };

// Returns what is remembered of the ledger `path`; nullopt if nothing is.
std::optional<LogEnd> RememberedLogEnd(const std::string& path);

// Does nothing for a database without such a file. A failure, which only makes the memory older, is
// ignored.
void RememberLogEnd(const std::string& path, const LogEnd& end, Lasts lasts);

}  // namespace buttress
