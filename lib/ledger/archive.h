// Groups that have ended, outside of the ledger's database:
//
//   <folder of ledger.db>/archive/00000001.db, 00000002.db, ...
//
// An archive is a SQLite file with the tables `groups` and `accepted` of the ledger, and in them
// the rows of all groups of a range of ids. It is written once and synced; then one transaction
// names it with its size and its SHA-256 in the table `archives` and deletes the rows from the
// database. A file that no row names was left by a crash, and is written again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/ledger/database.h"
#include "lib/ledger/rows.h"

namespace buttress {

// A row of the table `archives`.
struct ArchiveRow {
  std::uint64_t number = 0;  // from 1
  std::uint64_t first_group = 0;
  std::uint64_t last_group = 0;
  std::uint64_t first_step = 0;  // of the groups that a plan named or replaced; 0 without one
  std::uint64_t last_step = 0;
  std::uint64_t bytes = 0;
  std::string sha256;
  PayloadEnd payload_end;  // behind the last payload of this archive and those before it

  bool operator==(const ArchiveRow&) const = default;
};

// <folder of `ledger_path`>/archive.
std::string ArchiveFolder(const std::string& ledger_path);

// The path of an archive of the ledger at `ledger_path`.
std::string ArchivePath(const std::string& ledger_path, std::uint64_t number);

// Opens an archive to read it, once its size and its SHA-256 are those of `row`. kDataLoss names a
// file that is missing or damaged.
Result<std::unique_ptr<Database>> OpenArchive(const std::string& ledger_path,
                                              const ArchiveRow& row);

// Writes the archive row.number with the groups row.first_group ... row.last_group of `ledger`,
// durably, and sets the fields of `row` that describe it, but payload_end. kResourceExhausted if
// the disk is full. REQUIRES: `ledger` is in no transaction.
Status WriteArchive(Database& ledger, const std::string& ledger_path, ArchiveRow& row);

}  // namespace buttress
