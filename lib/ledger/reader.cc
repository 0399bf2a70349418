#include "lib/ledger/reader.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/ledger/database.h"
#include "lib/ledger/read_rows.h"

namespace buttress {

LedgerReader::LedgerReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}

LedgerReader::~LedgerReader() = default;

Result<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path, ReaderView view) {
  if (access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; expected the ledger.db of a run");
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                            Database::Open(path, DatabaseMode::kReadOnly));
  // A read transaction that all calls share begins with the first read.
  if (view == ReaderView::kOneMoment) BUTTRESS_RETURN_IF_ERROR(database->Execute("BEGIN"));
  BUTTRESS_RETURN_IF_ERROR(CheckLedgerFile(*database, path));
  return std::unique_ptr<LedgerReader>(new LedgerReader(std::move(database)));
}

Result<std::optional<RunRow>> LedgerReader::Run() { return ReadRun(*database_); }

Result<std::vector<GroupRecord>> LedgerReader::Join(const std::string& where) {
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(*database_, where));
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(*database_, where));
  std::vector<GroupRecord> records;
  for (auto& [id, group] : groups) {
    GroupRecord& record = records.emplace_back();
    record.group = std::move(group);
    const auto content = accepted.find(id);
    if (content != accepted.end()) record.accepted = std::move(content->second);
  }
  return records;
}

Result<std::vector<GroupRecord>> LedgerReader::Groups(std::uint64_t first_id, std::int64_t limit) {
  const std::string page =
      "SELECT group_id FROM groups WHERE group_id >= " + std::to_string(first_id) +
      " ORDER BY group_id LIMIT " + std::to_string(limit);
  return Join("group_id IN (" + page + ")");
}

Result<std::vector<GroupRecord>> LedgerReader::GroupsById(std::span<const std::uint64_t> ids) {
  constexpr std::size_t kPage = 4096;
  std::vector<GroupRecord> records;
  for (; !ids.empty(); ids = ids.subspan(std::min(kPage, ids.size()))) {
    std::string list;
    for (const std::uint64_t id : ids.first(std::min(kPage, ids.size())))
      list += (list.empty() ? "" : ", ") + std::to_string(id);
    BUTTRESS_ASSIGN_OR_RETURN(std::vector<GroupRecord> page, Join("group_id IN (" + list + ")"));
    std::ranges::move(page, std::back_inserter(records));
  }
  std::ranges::sort(records, {}, [](const GroupRecord& record) { return record.group.group_id; });
  return records;
}

Result<std::vector<StepOfGroup>> LedgerReader::StepsOfAccepted() {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database_->Prepare("SELECT CASE WHEN step > 0 THEN step ELSE granted_step + 1 END AS at, "
                         "group_id FROM accepted JOIN groups USING (group_id) "
                         "ORDER BY at, group_id"));
  std::vector<StepOfGroup> groups;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return groups;
    groups.push_back({rows->Unsigned(0), rows->Unsigned(1)});
  }
}

Result<std::vector<std::uint64_t>> LedgerReader::DrawnFor(std::uint64_t step) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database_->Prepare("SELECT group_id FROM (SELECT group_id, 0 AS late, position "
                         "FROM plan_groups WHERE step = ?1 UNION ALL SELECT group_id, 1, group_id "
                         "FROM groups WHERE reason = 'no_signal' AND step = ?1 AND "
                         "EXISTS (SELECT 1 FROM plans WHERE step = ?1)) ORDER BY late, position"));
  rows->Bind(step);
  std::vector<std::uint64_t> ids;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return ids;
    ids.push_back(rows->Unsigned(0));
  }
}

Result<std::vector<UnsolvedPrompt>> LedgerReader::Unsolved(std::int64_t recent,
                                                           std::int64_t limit) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database_->Prepare("SELECT prompt_id, source, MAX(group_id), scored FROM "
                         "(SELECT group_id FROM accepted ORDER BY group_id DESC LIMIT ?1) "
                         "JOIN groups USING (group_id) JOIN prompt_history USING (dataset_row) "
                         "WHERE correct = 0 AND scored > completions "
                         "GROUP BY dataset_row ORDER BY scored DESC, 3 DESC LIMIT ?2"));
  rows->Bind(recent, limit);
  std::vector<UnsolvedPrompt> prompts;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return prompts;
    prompts.push_back({rows->Text(0), rows->Text(1), rows->Unsigned(2), rows->Int(3)});
  }
}

Result<std::map<std::uint64_t, PlanRow>> LedgerReader::Plans() {
  return ReadPlans(*database_, "TRUE");
}

Result<std::map<std::string, SkipCounts>> LedgerReader::Skipped() {
  return ReadSkipped(*database_);
}

Result<EndedCounts> LedgerReader::Ended() { return ReadEnded(*database_); }

Result<std::int64_t> LedgerReader::WrongSkipCounts() {
  return database_->QueryInt(
      "SELECT COUNT(*) FROM (SELECT source, reason, COUNT(*) AS counted FROM skipped "
      "GROUP BY source, reason) FULL JOIN skipped_prompts USING (source, reason) "
      "WHERE prompts IS NOT counted");
}

Result<std::vector<PromptHistory>> LedgerReader::Histories() { return ReadHistories(*database_); }

Result<std::int64_t> LedgerReader::DrawnAndSkipped() {
  return database_->QueryInt("SELECT COUNT(*) FROM groups JOIN skipped USING (pass, dataset_row)");
}

Result<std::map<std::pair<std::int64_t, std::uint64_t>, LedgerReader::PassCounts>>
LedgerReader::DrawnByPass() {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database_->Prepare(
          "WITH ends AS (SELECT position, dataset_rows, SUM(dataset_rows) OVER (ORDER BY position) "
          "AS behind FROM sources), "
          "used AS (SELECT pass, dataset_row, 1 AS drawn FROM groups UNION ALL "
          "SELECT pass, dataset_row, 0 FROM skipped) "
          "SELECT IFNULL(position, -1), pass, SUM(drawn), COUNT(*) FROM used LEFT JOIN ends "
          "ON dataset_row < behind AND dataset_row >= behind - dataset_rows "
          "GROUP BY 1, 2"));
  std::map<std::pair<std::int64_t, std::uint64_t>, PassCounts> counts;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return counts;
    counts[{rows->Int(0), rows->Unsigned(1)}] = {rows->Int(2), rows->Int(3)};
  }
}

Result<std::map<std::string, CollapseCounts>> LedgerReader::ReportedCollapse() {
  return ReadCollapse(*database_);
}

Result<std::optional<OriginRow>> LedgerReader::Origin() { return ReadOrigin(*database_); }

Result<std::vector<DropRow>> LedgerReader::Drops() { return ReadDrops(*database_); }

Result<PayloadEnd> LedgerReader::EndOfPayloads() { return ReadPayloadEnd(*database_); }

Result<std::vector<LearnerRow>> LedgerReader::Learners() { return ReadLearners(*database_); }

Result<std::vector<CommitRow>> LedgerReader::Commits() { return ReadCommits(*database_); }

Result<std::vector<CheckpointRow>> LedgerReader::Checkpoints() {
  return ReadCheckpoints(*database_, 0);
}

Result<std::vector<std::string>> LedgerReader::DamageOfFile() {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Statement> rows,
                            database_->Prepare("PRAGMA integrity_check(10)"));
  std::vector<std::string> damage;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return damage;
    if (std::string line = rows->Text(0); line != "ok") damage.push_back(std::move(line));
  }
}

Result<std::vector<std::string>> LedgerReader::DamagedRows() { return ReadDamagedRows(*database_); }

}  // namespace buttress
