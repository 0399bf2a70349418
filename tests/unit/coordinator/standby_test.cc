// What a standby receives is at any moment what a crash of the coordinator would leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "coordinator/standby/file_record.h"
#include "coordinator/standby/mirror.h"
#include "coordinator/standby/standby_folder.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t kSmallSegment = 4096;
constexpr std::int64_t kShortWaitMs = 300;
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

// The ledger and the payloads of a run that is followed, without a scheduler and without gRPC.
class StandbyTest : public ::testing::Test {
 protected:
  void Start(StandbyMode mode, std::int64_t wait_ms = 0) {
    ASSERT_TRUE(MakeFolders(folder_).ok());
    mirror_ = std::make_unique<Mirror>(folder_, mode, wait_ms, metrics_);
    ledger_ = *Ledger::Open(folder_ + "/ledger.db");
    payloads_ = *PayloadStore::Open(folder_ + "/payloads", {}, {}, kSmallSegment);
    mirror_->Start("run");
  }

  // A turn that accepts a group, as TurnStore writes it.
  void RunTurn() {
    const std::uint64_t id = ++groups_;
    const std::string payload(1000, static_cast<char>('a' + id % 26));
    AcceptedGroup accepted = MakeAccepted(MakeHead(id, {Outcome::kWrong, Outcome::kWrong}));
    accepted.content_sha256 = Sha256Of(payload);
    accepted.payload = *payloads_->Append({id, 1}, payload, accepted.content_sha256);
    LedgerChanges changes;
    GroupRow group;
    group.group_id = id;
    group.state = GroupState::kReady;
    changes.groups.push_back(group);
    changes.accepted.push_back(accepted);
    changes.run.emplace().run_id = "run";
    changes.run->next_group_id = id + 1;
    ASSERT_TRUE(payloads_->Sync().ok());
    mirror_->PayloadsSynced();
    ASSERT_TRUE(ledger_->Write(changes).ok());
    mirror_->EndTurn();
  }

  // Takes the records that are there.
  std::vector<v1::FollowResponse> TakeAll(std::uint64_t id) {
    std::vector<v1::FollowResponse> records;
    v1::FollowResponse record;
    while (mirror_->Take(id, milliseconds(0), record) == Mirror::Next::kRecord)
      records.push_back(record);
    return records;
  }

  // Expects that a coordinator could start on `folder`, and returns the groups of its ledger, the
  // payloads of which are all there.
  static std::uint64_t GroupsIn(const std::string& folder) {
    EXPECT_TRUE(CheckPromotable(folder).ok());
    const auto ledger = Ledger::Open(folder + "/ledger.db");
    EXPECT_TRUE(ledger.ok()) << ledger.status().ToString();
    const auto snapshot = (*ledger)->Load();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    const auto payloads =
        PayloadStore::Open(folder + "/payloads", (*ledger)->payload_end(), {}, kSmallSegment);
    EXPECT_TRUE(payloads.ok()) << payloads.status().ToString();
    for (const auto& [id, group] : snapshot->accepted)
      EXPECT_TRUE((*payloads)->Read(group.payload).ok()) << id;
    return snapshot->accepted.size();
  }

  const TempDir dir_;
  const std::string folder_ = dir_.path() + "/primary", copy_ = dir_.path() + "/standby";
  Metrics metrics_{"coordinator"};
  StandbyGauges gauges_{metrics_};
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  std::uint64_t groups_ = 0;
};

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
  const std::uint64_t id = mirror_->Attach();
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
  const std::uint64_t id = mirror_->Attach();
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

TEST_F(StandbyTest, ASynchronousTurnEndsOnceTheStandbyHasIt) {
  Start(StandbyMode::kSynchronous);
  const std::uint64_t id = mirror_->Attach();
  std::atomic<bool> ended = false;
  std::thread turn([&] {
    RunTurn();
    ended = true;
  });
  v1::FollowResponse record;
  bool is_turn = false;
  while (!is_turn) {
    if (mirror_->Take(id, milliseconds(100), record) != Mirror::Next::kRecord) continue;
    is_turn = record.operation() == v1::FILE_OPERATION_TURN;
  }
  std::this_thread::sleep_for(milliseconds(kShortWaitMs));
  EXPECT_FALSE(ended);
  EXPECT_THAT(mirror_->StatusText(), HasSubstr("synchronous standby"));
  mirror_->Confirm(id, record.number());
  turn.join();
  EXPECT_TRUE(ended);
  EXPECT_EQ(mirror_->StatusText(), "synchronous standby: 0 turns behind, 0 bytes, 0.0 s");
}

TEST_F(StandbyTest, WithoutAStandbyTheCoordinatorGoesOnAloneAfterItsWaitAndSaysSo) {
  Start(StandbyMode::kSynchronous, kShortWaitMs);
  ::testing::internal::CaptureStderr();
  RunTurn();
  RunTurn();  // waits no more
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("goes on alone"));
  EXPECT_EQ(mirror_->StatusText(), "synchronous standby: away, 2 turns are on this disk alone");
  const std::uint64_t id = mirror_->Attach();
  mirror_->Confirm(id, TakeAll(id).back().number());
  EXPECT_EQ(mirror_->StatusText(), "synchronous standby: 0 turns behind, 0 bytes, 0.0 s");
}

TEST_F(StandbyTest, AnAsynchronousStandbyShowsItsLag) {
  Start(StandbyMode::kAsynchronous);
  const std::uint64_t id = mirror_->Attach();
  mirror_->Confirm(id, TakeAll(id).back().number());
  for (int i = 0; i < 3; ++i) RunTurn();
  mirror_->Report();
  EXPECT_THAT(mirror_->StatusText(), HasSubstr("asynchronous standby: 3 turns behind"));
  EXPECT_EQ(gauges_.lag_turns.Value(), 3);
  EXPECT_GT(gauges_.lag_bytes.Value(), 3000);
  EXPECT_EQ(gauges_.level.Value(), 1);
  mirror_->Detach(id);
  EXPECT_EQ(gauges_.level.Value(), 0);
}

TEST_F(StandbyTest, FoldersAreNotTakenForWhatTheyAreNot) {
  Start(StandbyMode::kAsynchronous);
  EXPECT_THAT(StandbyFolder::Open(folder_).status().message(), HasSubstr("a run of its own"));
  {
    StandbyFolder folder = *StandbyFolder::Open(copy_);
    ASSERT_TRUE(folder.Begin("run").ok());
    EXPECT_THAT(CheckPromotable(copy_).message(), HasSubstr("not whole"));
    ASSERT_TRUE(folder.Apply(RecordOf(1, v1::FILE_OPERATION_LEVEL, "")).ok());
    EXPECT_TRUE(CheckPromotable(copy_).ok());
    EXPECT_THAT(folder.Begin("another").message(), HasSubstr("has the copy of run run"));
  }
  ASSERT_TRUE(Promote(copy_).ok());
  EXPECT_FALSE(std::filesystem::exists(copy_ + "/standby.json"));
}

}  // namespace
}  // namespace buttress
