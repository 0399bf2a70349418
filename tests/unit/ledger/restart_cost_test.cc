// What a restart reads does not grow with the groups that have ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "lib/ledger/audit.h"
#include "lib/ledger/database.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/reader.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::uint64_t kDatasetRows = 50;

std::int64_t steps_of_sqlite = 0;

int CountSteps(unsigned, void*, void* statement, void*) {
  steps_of_sqlite +=
      sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, 0);
  return 0;
}

int CountStepsOf(sqlite3* database, const char**, const void*) {
  return sqlite3_trace_v2(database, SQLITE_TRACE_PROFILE, CountSteps, nullptr);
}

// Counts the steps of SQLite's virtual machine on every connection that is opened meanwhile.
class StepCounter {
 public:
  StepCounter() {
    steps_of_sqlite = 0;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(CountStepsOf));
  }

  ~StepCounter() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(CountStepsOf)); }
};

GroupRow EndedGroup(std::uint64_t id) {
  GroupRow row;
  row.group_id = id;
  row.prompt = {"p" + std::to_string(id % kDatasetRows), "s", id / kDatasetRows, id % kDatasetRows,
                1};
  row.lease_epoch = 1;
  row.state = id % 3 == 0 ? GroupState::kDropped : GroupState::kSettled;
  if (row.state == GroupState::kDropped) row.reason = DropReason::kNoSignal;
  row.step = id % 3 == 0 ? 1 : 2;
  return row;
}

AcceptedGroup ContentOf(std::uint64_t id) {
  AcceptedGroup group = MakeAccepted(MakeHead(id, {Outcome::kCorrect}));
  group.payload = {1, 100 * id, 50, 0};
  return group;
}

// A run whose groups 1 ... `groups` have all ended, with a version and a skip for every tenth one.
std::string WriteHistory(const TempDir& folder, std::uint64_t groups) {
  const std::string path = folder.path() + "/ledger.db";
  const std::unique_ptr<Ledger> ledger = *Ledger::Open(path);
  LedgerChanges changes;
  changes.run.emplace();
  changes.run->next_group_id = groups + 1;
  changes.run->planned_step = changes.run->committed_step = 2;
  changes.run->checkpoint_step = changes.run->settled_step = 2;
  EndedTokens& tokens = changes.ended_tokens.emplace();
  for (std::uint64_t id = 1; id <= groups; ++id) {
    GroupRow pending = EndedGroup(id);
    pending.state = GroupState::kPending;
    pending.reason = DropReason::kNone;
    changes.groups.push_back(pending);
    changes.groups.push_back(EndedGroup(id));
    changes.accepted.push_back(ContentOf(id));
    (id % 3 == 0 ? tokens.stale : tokens.trained) += TokensOf(*changes.accepted.back().head);
    changes.collapse["s"].Add(CollapseClass::kUnscorable);
    changes.histories[id % kDatasetRows].Add(PromptHistory(1, 1), 1);
    if (id % 10 != 0) continue;
    changes.skipped.push_back({1000 + id, id % kDatasetRows, SkipReason::kHard});
    changes.manifests.push_back({{1, id, "digest"}, "manifest of " + std::to_string(id)});
  }
  EXPECT_TRUE(ledger->Write(changes).ok());
  return path;
}

std::int64_t StepsOfRestart(std::uint64_t groups) {
  TempDir folder;
  const std::string path = WriteHistory(folder, groups);
  StepCounter counter;
  const std::unique_ptr<Ledger> ledger = *Ledger::Open(path);
  const Result<LedgerSnapshot> snapshot = ledger->Load();
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  constexpr auto kReplaced = static_cast<std::size_t>(DropReason::kNoSignal);
  EXPECT_EQ(snapshot->ended.settled + snapshot->ended.dropped[kReplaced],
            static_cast<std::int64_t>(groups));
  EXPECT_EQ(snapshot->skipped.at("")[1], static_cast<std::int64_t>(groups / 10));
  EXPECT_EQ(ledger->payload_end(), (PayloadEnd{1, 100 * groups + kPayloadHeaderBytes + 50}));
  LedgerChanges announced;
  announced.manifests = {{{2, groups, "digest"}, "manifest"}};
  EXPECT_TRUE(ledger->Write(announced).ok());
  return steps_of_sqlite;
}

TEST(RestartCost, DoesNotGrowWithTheGroupsThatHaveEnded) {
  const std::int64_t few = StepsOfRestart(2 * kEndedTags);
  const std::int64_t many = StepsOfRestart(6 * kEndedTags);
  EXPECT_GT(few, 0);
  EXPECT_LT(many, few + few / 20);
}

TEST(RestartCost, OnlyTheNewestManifestKeepsItsBytes) {
  TempDir folder;
  const std::string path = WriteHistory(folder, 100);
  const auto database = *Database::Open(path, DatabaseMode::kReadOnly);
  EXPECT_EQ(*database->QueryInt("SELECT COUNT(*) FROM manifests"), 10);
  EXPECT_EQ(*database->QueryInt("SELECT COUNT(*) FROM newest_manifest"), 1);
  const auto snapshot = (*LedgerReader::Open(path))->Load();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(snapshot->announced->version.step, 100U);
  EXPECT_EQ(snapshot->announced->bytes, "manifest of 100");
}

std::size_t FindingsOf(const std::string& path) {
  return AuditLedger(**LedgerReader::Open(path))->findings.size();
}

TEST(RestartCost, AnAuditFindsAKeptCountThatTheRowsDoNotGive) {
  for (const char* change : {"UPDATE ended_groups SET groups = groups + 1 WHERE state = 'settled'",
                             "DELETE FROM ended_groups WHERE state = 'dropped'",
                             "DELETE FROM prompt_history WHERE dataset_row = 7",
                             "UPDATE skipped_prompts SET prompts = 0"}) {
    TempDir folder;
    const std::string path = WriteHistory(folder, 100);
    const std::size_t before = FindingsOf(path);
    ASSERT_TRUE((*Database::Open(path, DatabaseMode::kReadWrite))->Execute(change).ok()) << change;
    EXPECT_EQ(FindingsOf(path), before + 1) << change;
  }
}

TEST(RestartCost, AnAuditFindsAHistoryThatTheGroupsDoNotGive) {
  for (const std::uint64_t row : {std::uint64_t{7}, kDatasetRows + 27}) {
    TempDir folder;
    const std::string path = WriteHistory(folder, 100);
    const std::size_t before = FindingsOf(path);
    LedgerChanges changes;
    changes.histories[row] = PromptHistory(1, 1);
    ASSERT_TRUE((*Ledger::Open(path))->Write(changes).ok());
    EXPECT_EQ(FindingsOf(path), before + 1) << row;
  }
}

TEST(RestartCost, AnAuditFindsTokensThatTheGroupsDoNotGive) {
  TempDir folder;
  const std::string path = WriteHistory(folder, 100);
  const std::size_t before = FindingsOf(path);
  const EndedTokens right = *(*LedgerReader::Open(path))->TokensOfEnded();
  EndedTokens trained = right, masked = right, stale = right;
  ++trained.trained;
  ++masked.masked;
  --stale.stale;
  for (const EndedTokens& wrong : {trained, masked, stale}) {
    LedgerChanges changes;
    changes.ended_tokens = wrong;
    ASSERT_TRUE((*Ledger::Open(path))->Write(changes).ok());
    EXPECT_EQ(FindingsOf(path), before + 1);
  }
}

}  // namespace
}  // namespace buttress
