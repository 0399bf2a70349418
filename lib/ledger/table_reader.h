// Reads rows of the tables of a ledger or an archive, for LedgerReader. `where` and `rest` are SQL
// of this library, never text from outside.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/ledger/archive.h"
#include "lib/ledger/database.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/rows.h"

namespace buttress {

using GroupRows = std::map<std::uint64_t, GroupRow>;
using AcceptedGroups = std::map<std::uint64_t, AcceptedGroup>;

// kDataLoss that names a value which the ledger cannot have.
Status Damaged(const std::string& what, const std::string& value);

Result<GroupRows> ReadGroups(Database& database, const std::string& where);

// Of a whole row of `accepted`.
Result<AcceptedGroup> AcceptedFrom(const Statement& row);

// `where` may name columns of `groups`. CROSS JOIN makes SQLite begin with the few groups of it
// instead of all contents.
Result<AcceptedGroups> ReadAccepted(Database& database, const std::string& where);

// The groups that `where` selects, with their contents.
Result<std::vector<GroupRecord>> JoinGroups(Database& database, const std::string& where);

// The archives that `rest`, SQL of this library behind the table's name, selects.
Result<std::vector<ArchiveRow>> ReadArchives(Database& database, const std::string& rest);

// LedgerSnapshot::followers.
Result<std::map<std::uint64_t, EndedGroup>> ReadFollowers(Database& database);

// The place in a plan, with id 0 if no group is known to have it.
std::uint64_t& PlaceIn(PlanRow& plan, std::uint64_t position);

// Without the groups that are in archives.
Result<std::map<std::uint64_t, PlanRow>> ReadPlans(Database& database, const std::string& where);

// Of the newest accepted groups of a source.
Result<RecentDifficulty> ReadDifficulty(Database& database, const std::string& source);

// By row of the dataset.
Result<std::map<std::uint64_t, PromptRecord>> ReadRecords(Database& database,
                                                          const std::string& where);

// The newest `limit` announced versions, oldest first.
Result<std::vector<PolicyVersion>> ReadVersions(Database& database, std::uint64_t limit);

Result<std::map<std::string, WorkerOrderRow>> ReadWorkerOrders(Database& database);

// The version that was announced last; nullopt before the first.
Result<std::optional<ManifestRow>> ReadNewestManifest(Database& database);

// ContentTag of the settled and the replaced groups with ids from `first_id` on, by id.
Result<std::map<std::uint64_t, std::uint64_t>> ReadEndedTags(Database& database,
                                                             std::uint64_t first_id);

// Sets `out` to the value below `count` that has this name.
template <class Enum>
Status FromName(std::string_view (*name_of)(Enum), std::size_t count, const std::string& name,
                Enum& out) {
  for (std::size_t i = 0; i < count; ++i) {
    out = static_cast<Enum>(i);
    if (name_of(out) == name) return OkStatus();
  }
  return Damaged("name", name);
}

// Calls `visit(row)` for the whole rows of a table; `rest` is the SQL behind the table's name.
template <class Visit>
Status ForEachRow(Database& database, std::string_view table, std::string_view rest, Visit visit) {
  return database.ForEach(fmt::format("SELECT * FROM {} {}", table, rest), visit);
}

// Returns the whole rows of a table, with its columns in `members`.
template <class Row, class... Members>
Result<std::vector<Row>> ReadTable(Database& database, std::string_view table,
                                   std::string_view rest, Members Row::*... members) {
  std::vector<Row> rows;
  const auto add = [&](const Statement& row) {
    Row& read = rows.emplace_back();
    row.Read(read.*members...);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, table, rest, add));
  return rows;
}

}  // namespace buttress
