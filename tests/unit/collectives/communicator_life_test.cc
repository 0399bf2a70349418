#include "lib/collectives/communicator_life.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "lib/collectives/call_watch.h"

namespace buttress {
namespace {

using Milliseconds = std::chrono::milliseconds;

// A communicator that counts. Its numbers have no lock: a thread sanitizer finds two threads in it.
struct CountedCommunicator {
  int calls = 0;
  int aborts = 0;
  int destructions = 0;
  int calls_after_release = 0;

  Status Call() {
    ++calls;
    if (aborts + destructions > 0) ++calls_after_release;
    return OkStatus();
  }

  std::unique_ptr<CommunicatorLife> Start() {
    return std::make_unique<CommunicatorLife>(
        "NCCL", [this] { ++aborts; }, [this] { ++destructions; });
  }
};

Status WaitOn(Milliseconds) { return OkStatus(); }

TEST(CommunicatorLifeTest, ARankThatLeavesWithoutTheEndAborts) {
  CountedCommunicator communicator;
  {
    const auto life = communicator.Start();
    EXPECT_TRUE(life->Use("all-reduce", [&] { return communicator.Call(); }).ok());
  }
  EXPECT_EQ(communicator.aborts, 1);
  EXPECT_EQ(communicator.destructions, 0);
}

TEST(CommunicatorLifeTest, AfterTheEndNothingIsCalledAndNothingAborted) {
  CountedCommunicator communicator;
  {
    const auto life = communicator.Start();
    EXPECT_TRUE(life->End().ok());
    life->Abort();
    const Status late = life->Use("barrier", [&] { return communicator.Call(); });
    EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(late.message(), "NCCL barrier: the group has ended; End is its last call");
    EXPECT_EQ(life->End().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(communicator.calls, 0);
  EXPECT_EQ(communicator.aborts, 0);
  EXPECT_EQ(communicator.destructions, 1);
}

TEST(CommunicatorLifeTest, AFailedCallAbortsOnceAndTheEndIsRefused) {
  CountedCommunicator communicator;
  const auto life = communicator.Start();
  const Status failed = life->Use("all-reduce", [] { return Unavailable("no link"); });
  EXPECT_EQ(failed.message(), "no link");
  life->Abort();
  EXPECT_EQ(life->Use("barrier", [&] { return communicator.Call(); }).code(), StatusCode::kAborted);
  EXPECT_EQ(life->End().code(), StatusCode::kAborted);
  EXPECT_EQ(communicator.calls, 0);
  EXPECT_EQ(communicator.aborts, 1);
  EXPECT_EQ(communicator.destructions, 0);
}

TEST(CommunicatorLifeTest, AWaitEndsWithItsEventOrAbortsWithTheErrorOfEitherSide) {
  CountedCommunicator communicator;
  const auto life = communicator.Start();
  int polls = 0;
  EXPECT_TRUE(life->Wait(
                      "split", [&polls]() -> Result<bool> { return ++polls == 3; }, WaitOn)
                  .ok());
  EXPECT_EQ(polls, 3);
  EXPECT_EQ(communicator.aborts, 0);
  const Status late = life->Wait(
      "split", []() -> Result<bool> { return false; },
      [](Milliseconds waited) {
        return waited < Milliseconds(2) ? OkStatus() : DeadlineExceeded("late");
      });
  EXPECT_EQ(late.message(), "late");
  EXPECT_EQ(communicator.aborts, 1);
  CountedCommunicator other;
  EXPECT_EQ(other.Start()
                ->Wait(
                    "split", []() -> Result<bool> { return Unavailable("no link"); }, WaitOn)
                .message(),
            "no link");
  EXPECT_EQ(other.aborts, 1);
}

TEST(CommunicatorLifeTest, AnAbortOfAnotherThreadEndsAWaitAndExcludesCalls) {
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    CountedCommunicator communicator;
    const auto life = communicator.Start();
    std::atomic<bool> waits{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        const Status status = life->Wait(
            "all-reduce",
            [&]() -> Result<bool> {
              waits = true;
              BUTTRESS_RETURN_IF_ERROR(communicator.Call());
              return false;
            },
            WaitOn);
        EXPECT_EQ(status.code(), StatusCode::kAborted);
      });
    }
    while (!waits) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) threads.emplace_back([&life] { life->Abort(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(communicator.aborts, 1);
    EXPECT_EQ(communicator.calls_after_release, 0);
  }
}

// Returns what a call says that is made until it fails.
Status FirstError(CommunicatorLife& life) {
  for (;;) {
    Status status = life.Use("barrier", OkStatus);
    if (!status.ok()) return status;
    std::this_thread::yield();
  }
}

TEST(CallWatchTest, ACallThatNoThreadWaitsForEndsTheGroupWithItsError) {
  CountedCommunicator late, failed;
  const auto late_life = late.Start(), failed_life = failed.Start();
  CallWatch late_watch(*late_life), failed_watch(*failed_life);
  std::atomic<int> polls{0};
  late_watch.Add(
      "all-reduce", [&polls]() -> Result<bool> { return ++polls == 3; }, WaitOn);
  late_watch.Add(
      "all-gather", []() -> Result<bool> { return false; },
      [](Milliseconds waited) {
        return waited < Milliseconds(2) ? OkStatus() : DeadlineExceeded("late");
      });
  EXPECT_EQ(FirstError(*late_life).message(), "late");
  EXPECT_EQ(polls, 3);
  EXPECT_EQ(late.aborts, 1);
  failed_watch.Add(
      "all-reduce", []() -> Result<bool> { return Unavailable("no link"); }, WaitOn);
  EXPECT_EQ(FirstError(*failed_life).message(), "no link");
  EXPECT_EQ(failed_life->Use("barrier", OkStatus).code(), StatusCode::kUnavailable);
}

TEST(CallWatchTest, AWatchEndsWhileACallIsNotDone) {
  CountedCommunicator communicator;
  const auto life = communicator.Start();
  {
    CallWatch watch(*life);
    watch.Add(
        "all-reduce", []() -> Result<bool> { return false; }, WaitOn);
  }
  EXPECT_TRUE(life->Use("barrier", OkStatus).ok());
}

}  // namespace
}  // namespace buttress
