// What a standby receives is at any moment what a crash of the coordinator would leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "coordinator/standby/file_record.h"
#include "coordinator/standby/standby_folder.h"
#include "lib/ledger/reader.h"
#include "tests/unit/coordinator/standby_fixture.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int kTurnsMeanwhile = 12;

v1::FollowResponse RecordOf(std::uint64_t number, v1::FileOperation operation,
                            const std::string& file = "ledger.db", const std::string& data = "") {
  v1::FollowResponse record;
  record.set_number(number);
  record.set_operation(operation);
  record.set_file(file);
  record.set_data(data);
  record.set_check(CheckOf(record));
  return record;
}

TEST_F(StandbyTest, TornRepeatedAndReorderedRecordsAreRefused) {
  StandbyFolder folder = *StandbyFolder::Open(copy_);
  ASSERT_TRUE(folder.Begin("run").ok());
  ASSERT_TRUE(folder.Apply(RecordOf(1, v1::FILE_OPERATION_WRITE, "ledger.db", "bytes")).ok());
  v1::FollowResponse torn = RecordOf(2, v1::FILE_OPERATION_WRITE, "ledger.db", "bytes");
  torn.set_data("byte");
  EXPECT_THAT(folder.Apply(torn).status().message(), HasSubstr("its check fails"));
  for (const std::uint64_t number : {0, 1, 3}) {
    const auto refused = folder.Apply(RecordOf(number, v1::FILE_OPERATION_SYNC));
    EXPECT_EQ(refused.status().code(), StatusCode::kDataLoss) << number;
  }
  for (const char* name : {"/etc/passwd", "payloads/../x", "payloads/..", "config.yaml", ""}) {
    const auto refused = folder.Apply(RecordOf(2, v1::FILE_OPERATION_WRITE, name));
    EXPECT_THAT(refused.status().message(), HasSubstr("names the file")) << name;
  }
  EXPECT_TRUE(folder.Apply(RecordOf(2, v1::FILE_OPERATION_SYNC)).ok());
}

TEST_F(StandbyTest, AStandbyThatComesDuringTheRunHasEveryTurnOnceItIsLevel) {
  Start(StandbyMode::kAsynchronous);
  for (int i = 0; i < 20; ++i) RunTurn();
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  {
    StandbyFolder folder = *StandbyFolder::Open(copy_);
    ASSERT_TRUE(folder.Begin(mirror_->run_id()).ok());
    v1::FollowResponse record;
    // The copy is read while turns go on.
    for (int taken = 0; !folder.level(); ++taken) {
      ASSERT_EQ(mirror_->Take(id, milliseconds(0), record), Mirror::Next::kRecord);
      ASSERT_TRUE(folder.Apply(record).ok());
      if (taken < kTurnsMeanwhile) RunTurn();
    }
    for (const v1::FollowResponse& next : TakeAll(id)) ASSERT_TRUE(folder.Apply(next).ok());
  }
  EXPECT_EQ(GroupsIn(copy_), groups_);
}

// The log is copied into the database meanwhile.
TEST_F(StandbyTest, EveryPrefixOfTheRecordsIsAStateOfTheRun) {
  Start(StandbyMode::kAsynchronous);
  RunTurn();
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  std::vector<v1::FollowResponse> records = TakeAll(id);
  const std::size_t level = records.size();
  for (int i = 0; i < 6; ++i) {
    RunTurn();
    if (i == 3) {
      const auto other = *Database::Open(folder_ + "/ledger.db", DatabaseMode::kReadWrite);
      ASSERT_TRUE(other->Execute("PRAGMA wal_checkpoint(TRUNCATE)").ok());
    }
  }
  for (const v1::FollowResponse& record : TakeAll(id)) records.push_back(record);
  std::uint64_t before = 1, turns = 1;
  for (std::size_t size = level; size <= records.size(); ++size) {
    const std::string path = dir_.path() + "/prefix" + std::to_string(size);
    {
      StandbyFolder folder = *StandbyFolder::Open(path);
      ASSERT_TRUE(folder.Begin("run").ok());
      for (std::size_t i = 0; i < size; ++i) ASSERT_TRUE(folder.Apply(records[i]).ok());
      turns += records[size - 1].operation() == v1::FILE_OPERATION_TURN ? 1 : 0;
    }
    const std::uint64_t groups = GroupsIn(path);
    EXPECT_GE(groups, std::max(before, turns)) << size;
    before = groups;
  }
  EXPECT_EQ(before, groups_);
}

TEST_F(StandbyTest, ArchivesAndDeletedPayloadsAreFollowedByteForByte) {
  Start(StandbyMode::kAsynchronous);
  StandbyFolder folder = *StandbyFolder::Open(copy_);
  for (int i = 0; i < 6; ++i) RunTurn(GroupState::kSettled);
  Archive(/*most=*/2);
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  ASSERT_TRUE(folder.Begin(mirror_->run_id()).ok());
  Archive(/*most=*/2);  // during the copy
  DeletePayloads(/*first_kept=*/2);
  for (const v1::FollowResponse& next : TakeAll(id)) ASSERT_TRUE(folder.Apply(next).ok());
  EXPECT_EQ(FilesOf(copy_), FilesOf(folder_));

  for (int i = 0; i < 6; ++i) RunTurn(GroupState::kSettled);
  std::vector<std::string> order;
  Archive(/*most=*/3);
  DeletePayloads(/*first_kept=*/3);
  for (const v1::FollowResponse& next : TakeAll(id)) {
    order.push_back(next.file());
    ASSERT_TRUE(folder.Apply(next).ok());
  }
  const auto files = FilesOf(folder_);
  EXPECT_EQ(FilesOf(copy_), files);
  EXPECT_TRUE(files.contains("archive/00000003.db"));
  EXPECT_FALSE(files.contains("payloads/00000002.seg"));
  const auto archive = std::ranges::find(order, "archive/00000003.db");
  const auto after = std::ranges::find(archive, order.end(), "ledger.db-wal");
  EXPECT_NE(after, order.end()) << "the ledger names an archive that has been sent";
}

// The ledger of a prefix never names an archive that is not there.
TEST_F(StandbyTest, AnArchiveIsThereBeforeTheLedgerNamesIt) {
  Start(StandbyMode::kAsynchronous);
  for (int i = 0; i < 6; ++i) RunTurn(GroupState::kSettled);
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  StandbyFolder folder = *StandbyFolder::Open(copy_);
  ASSERT_TRUE(folder.Begin("run").ok());
  for (const v1::FollowResponse& next : TakeAll(id)) ASSERT_TRUE(folder.Apply(next).ok());
  Archive(/*most=*/4);
  std::uint64_t archives = 0;
  for (const v1::FollowResponse& next : TakeAll(id)) {
    ASSERT_TRUE(folder.Apply(next).ok());
    const std::string path = dir_.path() + "/prefix" + std::to_string(next.number());
    std::filesystem::copy(copy_, path, std::filesystem::copy_options::recursive);
    const auto reader = LedgerReader::Open(path + "/ledger.db");
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    EXPECT_EQ(*(*reader)->DamagedArchives(), std::vector<std::string>()) << next.number();
    archives = (*reader)->Archives()->size();
  }
  EXPECT_EQ(archives, 1);
}

// A copy that is whole is one to start on until the next one is.
TEST_F(StandbyTest, AStandbyThatReturnsKeepsItsCopyUntilTheNewOneIsWhole) {
  Start(StandbyMode::kAsynchronous);
  StandbyFolder folder = *StandbyFolder::Open(copy_);
  for (int i = 0; i < 3; ++i) RunTurn();
  std::uint64_t id = mirror_->Attach(kStandbyName);
  ASSERT_TRUE(folder.Begin("run").ok());
  for (const v1::FollowResponse& next : TakeAll(id)) ASSERT_TRUE(folder.Apply(next).ok());
  EXPECT_TRUE(folder.whole());
  mirror_->Detach(id);
  for (int i = 0; i < 3; ++i) RunTurn();

  id = mirror_->Attach(kStandbyName);
  ASSERT_TRUE(folder.Begin("run").ok());
  EXPECT_FALSE(folder.level());
  int prefix = 0;
  for (const v1::FollowResponse& next : TakeAll(id)) {
    const std::string path = dir_.path() + "/old" + std::to_string(++prefix);
    std::filesystem::copy(copy_, path, std::filesystem::copy_options::recursive);
    EXPECT_EQ(GroupsIn(path), 3) << prefix;
    EXPECT_FALSE(std::filesystem::exists(path + "/incoming"));
    ASSERT_TRUE(folder.Apply(next).ok());
  }
  EXPECT_TRUE(folder.level());
  EXPECT_GT(prefix, 3);
  const std::string path = dir_.path() + "/new";
  std::filesystem::copy(copy_, path, std::filesystem::copy_options::recursive);
  EXPECT_EQ(GroupsIn(path), 6);
}

// Of every state that a crash can leave of the move a coordinator starts on the new copy.
TEST_F(StandbyTest, AMoveThatACrashInterruptsIsCompleted) {
  Start(StandbyMode::kAsynchronous);
  RunTurn();
  {
    StandbyFolder folder = *StandbyFolder::Open(copy_);
    const std::uint64_t id = mirror_->Attach(kStandbyName);
    ASSERT_TRUE(folder.Begin("run").ok());
    for (const v1::FollowResponse& next : TakeAll(id)) ASSERT_TRUE(folder.Apply(next).ok());
  }
  const auto expected = FilesOf(copy_);
  constexpr std::size_t kNames = std::size(kCopied);
  for (std::size_t moved = 0; moved <= kNames; ++moved) {
    for (const bool by_standby : {false, true}) {
      const std::string path = dir_.path() + "/moved" + std::to_string(moved * 2 + by_standby);
      std::filesystem::create_directories(path + "/incoming");
      for (std::size_t i = 0; i < kNames; ++i) {
        const std::string name = kCopied[i], to = i < moved ? name : "incoming/" + name;
        std::filesystem::copy(copy_ + "/" + name, path + "/" + to,
                              std::filesystem::copy_options::recursive);
        if (i >= moved) std::filesystem::create_directories(path + "/" + name);  // an old one
      }
      ASSERT_TRUE(WriteCopyMark(path, {"run", CopyState::kMoving}).ok());
      if (by_standby) {
        EXPECT_TRUE(StandbyFolder::Open(path)->whole());
      } else {
        EXPECT_TRUE(PrepareToPromote(path).ok());
      }
      EXPECT_EQ(FilesOf(path), expected) << moved;
      EXPECT_EQ(ReadCopyMark(path)->state, CopyState::kWhole);
      EXPECT_FALSE(std::filesystem::exists(path + "/incoming"));
    }
  }
}

TEST_F(StandbyTest, FoldersAreNotTakenForWhatTheyAreNot) {
  Start(StandbyMode::kAsynchronous);
  EXPECT_THAT(StandbyFolder::Open(folder_).status().message(), HasSubstr("a run of its own"));
  {
    StandbyFolder folder = *StandbyFolder::Open(copy_);
    EXPECT_THAT(PrepareToPromote(copy_).message(), HasSubstr("not whole"));
    ASSERT_TRUE(folder.Begin("run").ok());
    EXPECT_THAT(PrepareToPromote(copy_).message(), HasSubstr("not whole"));
    ASSERT_TRUE(folder.Apply(RecordOf(1, v1::FILE_OPERATION_LEVEL, "")).ok());
    EXPECT_THAT(PrepareToPromote(copy_).message(), HasSubstr("is open in another coordinator"));
    EXPECT_THAT(folder.Begin("another").message(), HasSubstr("has the copy of run run"));
  }
  EXPECT_TRUE(PrepareToPromote(copy_).ok());
  ASSERT_TRUE(Promote(copy_).ok());
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/standby.json"));
}

TEST_F(StandbyTest, ACopyWithoutTheFolderOfPayloadsDoesNotBecomeLevel) {
  Start(StandbyMode::kAsynchronous);
  RunTurn();
  const std::string payloads = folder_ + "/payloads", elsewhere = dir_.path() + "/away";
  std::filesystem::rename(payloads, elsewhere);
  std::uint64_t id = mirror_->Attach(kStandbyName);
  for (const v1::FollowResponse& record : TakeAll(id))
    EXPECT_NE(record.operation(), v1::FILE_OPERATION_LEVEL);
  EXPECT_FALSE(mirror_->attached(id));
  RunTurn();  // whose payload goes into the segment that is away
  std::filesystem::rename(elsewhere, payloads);
  id = mirror_->Attach(kStandbyName);
  {
    StandbyFolder folder = *StandbyFolder::Open(copy_);
    ASSERT_TRUE(folder.Begin("run").ok());
    for (const v1::FollowResponse& record : TakeAll(id)) ASSERT_TRUE(folder.Apply(record).ok());
    EXPECT_TRUE(folder.level());
  }
  EXPECT_EQ(GroupsIn(copy_), 2);
}

// Segments that grow during a copy are read when their turn comes: a long copy of a large folder
// takes no memory for them, and ends.
TEST_F(StandbyTest, ACopyTakesNoMemoryForPayloadsThatComeMeanwhile) {
  Start(StandbyMode::kAsynchronous);
  RunTurn();
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  StandbyFolder folder = *StandbyFolder::Open(copy_);
  ASSERT_TRUE(folder.Begin("run").ok());
  for (int i = 0; i < kTurnsMeanwhile; ++i) RunTurn();
  std::uint64_t payload_bytes = 0;
  for (const v1::FollowResponse& next : TakeAll(id)) {
    ASSERT_TRUE(folder.Apply(next).ok());
    if (next.file().starts_with("payloads/")) payload_bytes += next.data().size();
  }
  EXPECT_EQ(FilesOf(copy_), FilesOf(folder_));
  std::uint64_t expected = 0;
  for (const auto& [name, text] : FilesOf(folder_))
    if (name.starts_with("payloads/")) expected += text.size();
  EXPECT_EQ(payload_bytes, expected) << "each byte once";
}

}  // namespace
}  // namespace buttress
