#include "lib/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "lib/experience/codec.h"
#include "lib/ledger/audit.h"
#include "lib/ledger/checked_files.h"
#include "lib/ledger/checked_log.h"
#include "lib/ledger/database.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/schema.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

GroupRow Pending(std::uint64_t id) {
  GroupRow row;
  row.group_id = id;
  row.prompt = {"p" + std::to_string(id), "s", 0, id, 2};
  return row;
}

AcceptedGroup Accepted(std::uint64_t id) {
  v1::GroupHead head = MakeHead(id, {Outcome::kCorrect, Outcome::kWrong}, {1, 3, ""});
  head.set_raw_rewards(0, 0.1);
  head.set_rewards(0, -1e-300);
  for (const char* name : {"format", "answer"}) head.add_component_names(name);
  for (const double value : {0.5, 1.0, 0.25, 0.0}) head.add_components(value);
  PromptHistory history(1, 4);
  history.Add({2, 5}, 0.5);
  *head.mutable_history() = ToProto(history);
  *head.mutable_record() =
      ToProto({.easy_in_a_row = 1, .last_constant = true, .last_pass = 2, .correct = 0.75});
  AcceptedGroup group = MakeAccepted(std::move(head));
  group.payload = {2, 100, 50, 0xFFFFFFFF};
  return group;
}

RunRow FirstRun() {
  RunRow run;
  run.run_name = "run";
  run.config_sha256 = "aa";
  run.sources = {{.name = {}, .dataset = {3, "bb"}, .cursor = {}}};
  run.next_group_id = 2;
  return run;
}

class LedgerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Ledger> Open() {
    Result<std::unique_ptr<Ledger>> ledger = Ledger::Open(path_);
    EXPECT_TRUE(ledger.ok()) << ledger.status().ToString();
    return ledger.ok() ? *std::move(ledger) : nullptr;
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/ledger.db";
};

TEST_F(LedgerTest, ANewLedgerHasNoRun) {
  const Result<LedgerSnapshot> snapshot = Open()->Load();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(*snapshot, LedgerSnapshot{});
}

TEST_F(LedgerTest, EveryFieldOfAnAcceptedGroupComesBack) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->acr_ema = 0.1;
  GroupRow group = Pending(1);
  group.state = GroupState::kReady;
  group.incarnation = UINT64_MAX;
  group.worker_id = "w";
  group.min_version = {1, 2, ""};
  group.granted_version = {1, 3, ""};
  group.prompt.probability = 0.0078125;
  group.passed = 4;
  group.holds_slot = true;
  changes.groups = {group};
  changes.accepted = {Accepted(1)};
  changes.histories[1] = {4, 11};
  changes.collapse["s"].Add(CollapseClass::kMixed);
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerSnapshot snapshot = *Open()->Load();
  EXPECT_EQ(snapshot.run, changes.run);
  EXPECT_EQ(snapshot.groups.at(1), group);
  EXPECT_EQ(snapshot.accepted.at(1), changes.accepted[0]);
  EXPECT_EQ(snapshot.histories, (std::vector<PromptHistory>{{}, {4, 11}}));
  RecentDifficulty difficulty;
  difficulty.Add(1, {{2.5, 7}, {1, 2}});  // older visits weigh half
  EXPECT_EQ(snapshot.difficulty, (std::map<std::string, RecentDifficulty>{{"s", difficulty}}));
  const PayloadEnd end = Open()->payload_end();
  EXPECT_EQ(end.segment, 2);
  EXPECT_EQ(end.offset, 182);  // 100 + 32 + 50
}

void FlipBit(const std::string& path, std::uintmax_t place) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(place));
  const auto flipped = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(place));
  file.put(flipped);
}

TEST_F(LedgerTest, ADamagedPageIsToldByItsNumber) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.groups = {Pending(1)};
  changes.accepted = {Accepted(1)};
  ASSERT_TRUE(Open()->Write(changes).ok());
  const std::uintmax_t pages = std::filesystem::file_size(path_) / kPageBytes;
  EXPECT_GT(pages, 20);
  const std::string copy = folder_.path() + "/copy.db";
  for (std::uintmax_t page = 0; page < pages; ++page) {
    const std::uintmax_t place = page * kPageBytes + page * 100 % kPageBytes;
    FlipBit(path_, place);
    const std::string damage = "/ledger.db is damaged: page " + std::to_string(page + 1) +
                               " does not have its checksum; restore a backup of the run";
    const Status copied = CopyLedger(path_, copy);
    EXPECT_EQ(copied.code(), StatusCode::kDataLoss);
    EXPECT_THAT(copied.message(), HasSubstr(damage));
    const auto reader = LedgerReader::Open(path_);
    if (reader.ok()) {
      const auto audit = AuditLedger(**reader);
      EXPECT_THAT(audit.ok() ? audit->violations() : std::vector{audit.status().message()},
                  testing::Contains(HasSubstr(damage)));
    } else {
      EXPECT_THAT(reader.status().message(), HasSubstr(damage));
    }
    FlipBit(path_, place);
    std::filesystem::remove(copy);
  }
  EXPECT_TRUE(Open()->Load().ok());
  EXPECT_TRUE(CopyLedger(path_, copy).ok());
}

// A read of a page in the log, which its writer has opened before the damage.
TEST_F(LedgerTest, ADamagedFrameOfTheLogIsToldByItsNumber) {
  const std::unique_ptr<Ledger> ledger = Open();
  const std::string log = path_ + "-wal";
  const auto frames = (std::filesystem::file_size(log) - 32) / (24 + kPageBytes);
  for (std::uintmax_t frame = 0; frame < frames; ++frame)
    FlipBit(log, 32 + frame * (24 + kPageBytes) + 24 + 100);
  const Status read = LedgerReader::Open(path_).status();
  EXPECT_EQ(read.code(), StatusCode::kDataLoss);
  EXPECT_THAT(read.message(), testing::ContainsRegex("/ledger.db-wal is damaged: frame [0-9]+ "));
}

// What a killed coordinator leaves of two transactions, of which the second adds a group.
class KilledLedgerTest : public LedgerTest {
 protected:
  KilledLedgerTest() {
    std::filesystem::create_directory(folder_.path() + "/killed");
    std::unique_ptr<Ledger> ledger = Open();
    LedgerChanges changes;
    changes.run = FirstRun();
    EXPECT_TRUE(ledger->Write(changes).ok());
    synced_ = std::filesystem::file_size(path_ + "-wal");
    changes.groups = {Pending(1)};
    EXPECT_TRUE(ledger->Write(changes).ok());
    for (const char* part : {"", "-wal", ".lock"}) files_[part] = TextOf(path_ + part);
    ledger.reset();
    copied_ = TextOf(path_);
  }

  void PutBack() {
    for (const auto& [part, content] : files_)
      std::ofstream(killed_ + part, std::ios::binary) << content;
  }

  static std::string TextOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void ExpectRefused(const std::string& why) const {
    for (const Status& status :
         {LedgerReader::Open(killed_).status(), Ledger::Open(killed_).status(),
          CopyLedger(killed_, killed_ + ".copy")}) {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss);
      EXPECT_THAT(status.message(), testing::ContainsRegex("ledger.db-wal is damaged: " + why));
      EXPECT_THAT(status.message(), HasSubstr(kLedgerMend));
    }
    EXPECT_EQ(std::filesystem::file_size(killed_ + "-wal"), files_.at("-wal").size());
  }

  std::size_t Groups() const { return (*Ledger::Open(killed_))->Load()->groups.size(); }

  const std::string killed_ = folder_.path() + "/killed/ledger.db";
  std::map<std::string, std::string> files_;
  std::string copied_;         // the database with the whole log in it
  std::uintmax_t synced_ = 0;  // of the log, after the first transaction
};

TEST_F(KilledLedgerTest, ADamagedLogIsRefused) {
  PutBack();
  EXPECT_EQ(Groups(), 1);
  const std::map<std::uintmax_t, std::string> damage = {
      {3, "its header does"}, {5000, "frame 2 does"}, {synced_ + 500, "frame [0-9]+ does"}};
  for (const auto& [place, why] : damage) {
    PutBack();
    FlipBit(killed_ + "-wal", place);
    ExpectRefused(why);
  }
  files_["-wal"].resize(synced_);
  PutBack();
  ExpectRefused("it has less than [0-9]+ frames");
  std::filesystem::remove(killed_ + ".lock");
  EXPECT_EQ(Groups(), 0);
}

// The process dies while SQLite copies the log, page by page: the page with the number of the last
// transaction may be there without those that the transaction changed.
TEST_F(KilledLedgerTest, ADamagedLogThatIsCopiedInPartIsRefused) {
  ASSERT_GT(copied_.size(), 10 * kPageBytes);
  for (std::size_t bytes = 0; bytes <= copied_.size(); bytes += kPageBytes) {
    std::string& database = files_[""];
    if (database.size() < bytes) database.resize(bytes);
    database.replace(0, bytes, copied_, 0, bytes);
    PutBack();
    EXPECT_EQ(Groups(), 1) << bytes;
    PutBack();
    FlipBit(killed_ + "-wal", 2573);
    ExpectRefused("frame 1 does");
  }
}

// The lock of a program that did not remember where the log ends.
TEST_F(KilledLedgerTest, AnOldLockStillHasTheNumberOfTheLastTransaction) {
  std::string& lock = files_[".lock"];
  lock.resize(lock.find('\n', lock.find('\n') + 1) + 1);
  PutBack();
  EXPECT_EQ(RememberedLogEnd(killed_), std::nullopt);
  EXPECT_EQ(Groups(), 1);
  PutBack();
  FlipBit(killed_ + "-wal", 5000);
  const Status status = Ledger::Open(killed_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("transaction 2 was acknowledged, and only "));
}

TEST_F(LedgerTest, PromptRecordsComeBackAndAPromptIsDrawnOrPassedOverOnce) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->greso = GresoBases{0.51, 0.49};
  changes.run->sources = {{.name = {}, .dataset = {2, "bb"}, .cursor = {1, 2, 1}}};
  changes.groups = {Pending(1)};
  const std::uint64_t under_way = changes.groups[0].prompt.row;
  changes.records[under_way] = {.easy_in_a_row = 3,
                                .hard_in_a_row = 4,
                                .last_constant = true,
                                .last_pass = 5,
                                .correct = 0.5,
                                .wrong = 6};
  changes.records[UINT64_MAX] = {.last_pass = 7};
  changes.skipped = {{0, 0, SkipReason::kEasy, "b"},
                     {1, 0, SkipReason::kFarther, "a"},
                     {1, 1, SkipReason::kFarther, "a"}};
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerSnapshot snapshot = *Open()->Load();
  EXPECT_EQ(snapshot.run, changes.run);
  EXPECT_EQ(snapshot.records.size(), 1u);  // of the prompts that are under way
  EXPECT_EQ(snapshot.records.at(under_way), changes.records.at(under_way));
  for (const auto& [row, record] : changes.records)
    EXPECT_EQ(*Open()->ReadPromptRecord(row), record);
  EXPECT_EQ(*Open()->ReadPromptRecord(12345), PromptRecord());
  EXPECT_EQ(snapshot.skipped,
            (std::map<std::string, SkipCounts>{{"a", {0, 0, 0, 2, 0}}, {"b", {1, 0, 0, 0, 0}}}));
  LedgerChanges again;
  again.skipped = {{1, 1, SkipReason::kHard}};
  EXPECT_FALSE(Open()->Write(again).ok());

  EXPECT_THAT(AuditLedger(**LedgerReader::Open(path_))->violations(), IsEmpty());
  LedgerChanges both;
  both.skipped = {{changes.groups[0].prompt.pass, changes.groups[0].prompt.row, SkipReason::kHard}};
  ASSERT_TRUE(Open()->Write(both).ok());
  EXPECT_THAT(AuditLedger(**LedgerReader::Open(path_))->violations(),
              testing::ElementsAre(HasSubstr("in the same pass"),
                                   HasSubstr("pass 0 has 3 prompts drawn or passed over")));
}

TEST_F(LedgerTest, OrdersStandUntilTheyAreTakenBack) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.learners = {{1, 0, "", 2, std::string(32, 's')}};
  changes.orders = {{"a", WorkerOrder::kCordon, "noisy"}, {"b", WorkerOrder::kDrain, "moves"}};
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerSnapshot snapshot = *Open()->Load();
  EXPECT_EQ(snapshot.learners, changes.learners);
  EXPECT_EQ(snapshot.orders.at("a"), changes.orders[0]);
  EXPECT_EQ(snapshot.orders.at("b"), changes.orders[1]);
  changes = {};
  changes.orders = {{"a", WorkerOrder::kNone, ""}, {"b", WorkerOrder::kCordon, "stays"}};
  ASSERT_TRUE(Open()->Write(changes).ok());
  const auto orders = Open()->Load()->orders;
  EXPECT_EQ(orders.size(), 1U);
  EXPECT_EQ(orders.at("b"), changes.orders[1]);
}

TEST_F(LedgerTest, ChangesAreWrittenCompletelyOrNotAtAll) {
  std::unique_ptr<Ledger> ledger = Open();
  LedgerChanges first;
  first.run = FirstRun();
  first.groups = {Pending(1)};
  first.groups[0].state = GroupState::kReady;
  first.accepted = {Accepted(1)};
  ASSERT_TRUE(ledger->Write(first).ok());
  LedgerChanges second;
  second.run = FirstRun();
  second.run->next_group_id = 3;
  second.groups = {Pending(2)};
  second.accepted = {Accepted(1)};  // accepted twice
  EXPECT_FALSE(ledger->Write(second).ok());
  EXPECT_EQ(ledger->Load()->run->next_group_id, 2);
  EXPECT_FALSE(ledger->Load()->groups.contains(2));
  second.accepted.clear();
  EXPECT_TRUE(ledger->Write(second).ok());
}

TEST_F(LedgerTest, ContentThatIsTakenBackMayBeAcceptedAgain) {
  const auto ledger = Open();
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.groups = {Pending(1)};
  changes.groups[0].state = GroupState::kReady;
  changes.accepted = {Accepted(1)};
  changes.histories[1] = {1, 2};
  ASSERT_TRUE(ledger->Write(changes).ok());
  changes = {};
  changes.groups = {Pending(1)};
  changes.returned = {1};
  changes.histories[1] = {};
  ASSERT_TRUE(ledger->Write(changes).ok());
  EXPECT_FALSE(ledger->Load()->accepted.contains(1));
  EXPECT_EQ(ledger->Load()->histories.at(1), PromptHistory());
  changes.returned.clear();
  changes.accepted = {Accepted(1)};
  EXPECT_TRUE(ledger->Write(changes).ok());
}

TEST_F(LedgerTest, StartsVersionsAndCheckpointsComeBack) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->run_id = "0123";
  changes.run->settled_step = 4;
  changes.starts = {{1, "s1"}, {2, "s2"}};
  changes.manifests = {{{1, 3, std::string(32, 'x')}, "m"}, {{2, 0, std::string(32, 'y')}, "n"}};
  changes.checkpoints = {{1, 3, "old"}, {1, 4, std::string(32, 'c')}};
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerSnapshot snapshot = *Open()->Load();
  EXPECT_EQ(snapshot.run->run_id, "0123");
  EXPECT_EQ(snapshot.starts, changes.starts);
  EXPECT_EQ(snapshot.versions, (std::vector<PolicyVersion>{changes.manifests[0].version,
                                                           changes.manifests[1].version}));
  EXPECT_EQ(snapshot.checkpoints, (std::vector<CheckpointRow>{changes.checkpoints[1]}));
}

TEST_F(LedgerTest, AnEarlyEndCountsUntilALaterLearnerRegisters) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->learner_epoch = 2;
  changes.early_end = EarlyEndRow{2, 7, 3, "nothing left to learn"};
  ASSERT_TRUE(Open()->Write(changes).ok());
  EXPECT_EQ(Open()->Load()->early_end, changes.early_end);
  changes.early_end.reset();
  ++changes.run->learner_epoch;
  ASSERT_TRUE(Open()->Write(changes).ok());
  EXPECT_EQ(Open()->Load()->early_end, std::nullopt);
}

// A program of the same version of the ledger may not know of early ends.
TEST_F(LedgerTest, AGroupCannotBeInTwoPlans) {
  std::unique_ptr<Ledger> ledger = Open();
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.groups = {Pending(1)};
  changes.accepted = {Accepted(1)};
  changes.plans = {{1, {1}, {}}};
  ASSERT_TRUE(ledger->Write(changes).ok());
  LedgerChanges again;
  again.plans = {{2, {1}, {}}};
  EXPECT_FALSE(ledger->Write(again).ok());
}

TEST_F(LedgerTest, ASecondCoordinatorIsRefusedAndNamesTheFirst) {
  const std::unique_ptr<Ledger> first = Open();
  const Status second = Ledger::Open(path_).status();
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.message(),
              HasSubstr("is open in another coordinator, process " + std::to_string(getpid())));
}

TEST_F(LedgerTest, AReaderWorksDuringAndAfterTheCoordinator) {
  std::unique_ptr<Ledger> ledger = Open();
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.groups = {Pending(1)};
  ASSERT_TRUE(ledger->Write(changes).ok());
  const std::unique_ptr<LedgerReader> early = *LedgerReader::Open(path_);
  LedgerChanges more;
  more.groups = {Pending(2)};
  ASSERT_TRUE(ledger->Write(more).ok());
  EXPECT_EQ(early->Groups(1, 10)->size(), 1);  // as it was when it was opened
  EXPECT_EQ((*LedgerReader::Open(path_))->Groups(1, 10)->size(), 2);
  ledger.reset();
  EXPECT_EQ((*LedgerReader::Open(path_))->Groups(2, 10)->size(), 1);
}

TEST_F(LedgerTest, AReaderOfEachCallDoesNotKeepTheWriteAheadLog) {
  const std::unique_ptr<Ledger> ledger = Open();
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.groups = {Pending(1)};
  ASSERT_TRUE(ledger->Write(changes).ok());
  const auto database = *Database::Open(path_, DatabaseMode::kReadWrite);
  // Returns whether a reader keeps the log from being written into the file and cut.
  const auto is_kept = [&] { return *database->QueryInt("PRAGMA wal_checkpoint(RESTART)"); };
  ASSERT_TRUE(database->Execute("PRAGMA busy_timeout = 0").ok());
  for (const ReaderView view : {ReaderView::kEachCall, ReaderView::kOneMoment}) {
    const std::unique_ptr<LedgerReader> reader = *LedgerReader::Open(path_, view);
    const std::size_t before = reader->Groups(1, 10)->size();
    LedgerChanges more;
    more.groups = {Pending(before + 1)};
    ASSERT_TRUE(ledger->Write(more).ok());
    const bool each = view == ReaderView::kEachCall;
    EXPECT_EQ(is_kept(), each ? 0 : 1);
    EXPECT_EQ(reader->Groups(1, 10)->size(), before + (each ? 1 : 0));
  }
}

TEST_F(LedgerTest, AnAuditFindsACountThatTheOutcomesDoNotGive) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->sources[0].cursor = {0, 1, 1};
  changes.groups = {Pending(1)};
  changes.groups[0].lease_epoch = 1;
  changes.groups[0].state = GroupState::kReady;
  changes.accepted = {Accepted(1)};
  changes.histories[1] = PromptHistory(1, 2);
  changes.collapse["s"].Add(CollapseClass::kAllWrong);
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerAudit audit = *AuditLedger(**LedgerReader::Open(path_));
  ASSERT_THAT(audit.violations(), SizeIs(1));
  EXPECT_THAT(audit.violations()[0], HasSubstr("1 all wrong, 0 otherwise constant, 0 mixed"));
  EXPECT_EQ(audit.recounted.mixed, 1);
}

TEST_F(LedgerTest, AnAuditNamesEveryKindOfContradiction) {
  LedgerChanges changes;
  changes.run = FirstRun();
  changes.run->next_group_id = 4;
  changes.run->sources[0].cursor.index = 3;
  changes.groups = {Pending(1), Pending(2)};
  changes.groups[0].state = GroupState::kTrained;  // without content, before any commit
  changes.groups[0].step = 1;
  changes.groups[1].attempts = 2;  // under no lease
  changes.commits = {{1, 1}};      // of a learner that never started
  ASSERT_TRUE(Open()->Write(changes).ok());
  const LedgerAudit audit = *AuditLedger(**LedgerReader::Open(path_));
  std::set<std::string> kinds;
  for (const AuditFinding& finding : audit.findings) kinds.insert(finding.kind);
  EXPECT_THAT(kinds,
              testing::ElementsAre("content", "groups", "leases", "lineage", "plans", "prompts"));
  EXPECT_EQ(audit.findings[0].group_ids, std::vector<std::uint64_t>{1});
  EXPECT_EQ(audit.violations().size(), audit.findings.size());
}

TEST_F(LedgerTest, AFullDiskRefusesTheChangesAndLosesNothing) {
  const std::string disk = folder_.path() + "/disk";
  std::filesystem::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "a small tmpfs needs root to be mounted";
  std::unique_ptr<Ledger> ledger = *Ledger::Open(disk + "/ledger.db");
  std::ofstream(disk + "/filler") << std::string(200 << 10, 'x');
  std::uint64_t id = 0;
  Status status;
  while (status.ok() && id < 10000) {
    LedgerChanges changes;
    changes.run = FirstRun();
    changes.groups = {Pending(++id)};
    changes.accepted = {Accepted(id)};
    status = ledger->Write(changes);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  std::filesystem::remove(disk + "/filler");
  EXPECT_EQ(ledger->Load()->accepted.size(), id - 1);
  LedgerChanges changes;
  changes.groups = {Pending(id)};
  EXPECT_TRUE(ledger->Write(changes).ok());
  ledger.reset();
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST_F(LedgerTest, AForeignOrBrokenFileIsRefused) {
  std::ofstream(path_) << std::string(8192, 'x');
  EXPECT_EQ(Ledger::Open(path_).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(LedgerReader::Open(path_).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(LedgerReader::Open(folder_.path() + "/none.db").status().code(), StatusCode::kNotFound);
  const std::string other = folder_.path() + "/other.db";
  ASSERT_TRUE(
      (*Database::Open(other, DatabaseMode::kReadWrite))->Execute("CREATE TABLE t (x)").ok());
  EXPECT_THAT(Ledger::Open(other).status().message(), HasSubstr("is not a ledger"));
}

TEST_F(LedgerTest, ALedgerOfAnOlderVersionIsRefusedByNumber) {
  Open().reset();
  ASSERT_TRUE(
      (*Database::Open(path_, DatabaseMode::kReadWrite))->Execute("PRAGMA user_version = 3").ok());
  for (const Status& status : {Ledger::Open(path_).status(), LedgerReader::Open(path_).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr("is a ledger of version 3, this program reads version 17; use the "
                          "program that wrote it, or a new run folder"));
  }
}

TEST_F(LedgerTest, ALedgerFromBeforeTheChecksumsOfPagesIsRefusedByNumber) {
  sqlite3* older = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &older), SQLITE_OK);
  const std::string sql = "PRAGMA user_version = 16; CREATE TABLE t (x); PRAGMA application_id = " +
                          std::to_string(kLedgerApplicationId);
  ASSERT_EQ(sqlite3_exec(older, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(older);
  for (const Status& status : {Ledger::Open(path_).status(), LedgerReader::Open(path_).status()})
    EXPECT_THAT(status.message(), HasSubstr("is a ledger of version 16, this program reads"));
}

}  // namespace
}  // namespace buttress
