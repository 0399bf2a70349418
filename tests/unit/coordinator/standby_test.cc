// How turns and their standby wait for one another, and what bounds the waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/unit/coordinator/standby_fixture.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::int64_t kShortWaitMs = 300;

TEST_F(StandbyTest, ASynchronousTurnEndsOnceTheStandbyHasIt) {
  Start(StandbyMode::kSynchronous);
  const std::uint64_t id = mirror_->Attach(kStandbyName);
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
  EXPECT_EQ(mirror_->StatusText(),
            "synchronous standby: away since this coordinator started; turns do not wait for it");
  const std::uint64_t id = mirror_->Attach(kStandbyName);
  mirror_->Confirm(id, TakeAll(id).back().number());
  EXPECT_EQ(mirror_->StatusText(), "synchronous standby: 0 turns behind, 0 bytes, 0.0 s");
}

TEST_F(StandbyTest, AnAsynchronousStandbyShowsItsLag) {
  Start(StandbyMode::kAsynchronous);
  const std::uint64_t id = mirror_->Attach(kStandbyName);
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

TEST_F(StandbyTest, OneStandbyAtATimeFollows) {
  Start(StandbyMode::kAsynchronous);
  const std::uint64_t first = mirror_->Attach(kStandbyName);
  EXPECT_EQ(mirror_->Attach("another"), 0);
  EXPECT_TRUE(mirror_->attached(first));
  const std::uint64_t again = mirror_->Attach(kStandbyName);
  EXPECT_FALSE(mirror_->attached(first));
  mirror_->Detach(first);  // which is over
  EXPECT_TRUE(mirror_->attached(again));
  mirror_->Detach(again);
  EXPECT_NE(mirror_->Attach("another"), 0);
}

TEST_F(StandbyTest, AStandbyThatIsTooFarBehindIsLeftAndMayReturn) {
  Start(StandbyMode::kAsynchronous);
  std::uint64_t id = mirror_->Attach(kStandbyName);
  TakeAll(id);
  ::testing::internal::CaptureStderr();
  // An archive of a hole: more than memory may hold for a standby.
  const std::string path = folder_ + "/archive/00000001.db";
  ASSERT_TRUE(MakeFolders(folder_ + "/archive").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "").ok());
  std::filesystem::resize_file(path, std::uint64_t{257} << 20);
  mirror_->Archived(path);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("too many bytes behind"));
  EXPECT_FALSE(mirror_->attached(id));
  mirror_->Report();
  EXPECT_EQ(gauges_.lag_bytes.Value(), 0);
  std::filesystem::resize_file(path, 1);
  id = mirror_->Attach(kStandbyName);
  EXPECT_EQ(TakeAll(id).back().operation(), v1::FILE_OPERATION_LEVEL);
}

TEST_F(StandbyTest, WhileATurnWaitsTheCallerIsAskedForOtherWork) {
  Start(StandbyMode::kSynchronous);
  int asked = 0;
  mirror_->EndTurn([&] {
    EXPECT_THAT(mirror_->StatusText(), HasSubstr("; turns wait for it"));
    if (++asked == 3) mirror_->Stop();
  });
  EXPECT_EQ(asked, 3);
}

TEST_F(StandbyTest, AProcessThatHasChangedNothingAwaitsItsStandbyAsWell) {
  Start(StandbyMode::kSynchronous);
  int asked = 0;
  mirror_->AwaitStandby([&] {
    if (++asked < 2) return;
    const std::uint64_t id = mirror_->Attach(kStandbyName);
    mirror_->Confirm(id, TakeAll(id).back().number());
  });
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace buttress
