// Tests workers that are broken: what they keep, lose or give back costs them, and not the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The workers `a`, which is broken, and `b`, and room for sixteen groups.
class SchedulerBroken : public testing::Test {
 protected:
  static SchedulerRig Rig() {
    SchedulerOptions options = SmallRun();
    options.prompts = 8;
    options.steps = 100;
    options.lease_limit_ms = 250;
    SchedulerRig rig = SchedulerRig::Started(options);
    rig.Register("b", 1);
    rig.Admit();
    return rig;
  }

  ExchangeReply Ask(const std::string& worker, std::int64_t capacity,
                    std::vector<LeaseRef> held = {}) {
    WorkerExchange request;
    request.worker_id = worker;
    request.incarnation = incarnation_[worker];
    request.capacity = capacity;
    request.held = std::move(held);
    return rig_.Exchange(request);
  }

  std::vector<GrantedLease> Lease(const std::string& worker, std::int64_t capacity) {
    ++rig_.now_ms;
    return Ask(worker, capacity).leases;
  }

  // Returns the group that the worker was leased.
  std::uint64_t LeaseAndReturn(const std::string& worker, ReturnReason reason,
                               std::int64_t capacity = 0) {
    WorkerExchange failed;
    failed.worker_id = worker;
    failed.incarnation = incarnation_[worker];
    failed.returned = {{Lease(worker, 1).at(0).ref, reason}};
    failed.capacity = capacity;
    ++rig_.now_ms;
    rig_.Exchange(failed);
    return failed.returned[0].ref.group_id;
  }

  std::uint64_t LeaseAndFail(const std::string& worker) {
    return LeaseAndReturn(worker, ReturnReason::kEngineFailed);
  }

  SubmitOutcome Deliver(const std::string& worker, const GrantedLease& lease) {
    Submission submission = SchedulerRig::MakeSubmission(lease, lease.min_version,
                                                         {Outcome::kCorrect, Outcome::kWrong});
    submission.worker_id = worker;
    submission.incarnation = incarnation_[worker];
    return rig_.Submit(submission);
  }

  void LeaseAndDeliver(const std::string& worker) {
    EXPECT_EQ(Deliver(worker, Lease(worker, 1).at(0)), SubmitOutcome::kAccepted);
  }

  // The worker's process is replaced.
  void Replace(const std::string& worker) {
    ++rig_.now_ms;
    rig_.Register(worker, ++incarnation_[worker]);
    rig_.Commit();
  }

  void Pass(std::int64_t ms) {
    rig_.now_ms += ms;
    rig_.scheduler.Expire(rig_.now_ms, rig_.changes);
    rig_.Commit();
  }

  WorkerOrder OrderOf(const std::string& worker) const {
    return rig_.scheduler.workers().OrderOf(worker);
  }

  int Strikes(const std::string& worker) const {
    return rig_.scheduler.workers().known().at(worker).strikes.count;
  }

  SchedulerRig rig_ = Rig();
  std::map<std::string, std::uint64_t> incarnation_ = {{"a", 1}, {"b", 1}};
};

TEST_F(SchedulerBroken, AGroupThatFailedAtAWorkerGoesToAnotherOneForALeaseTime) {
  EXPECT_EQ(LeaseAndFail("a"), 1u);
  EXPECT_EQ(LeaseAndFail("a"), 2u) << "group 1 waits for the other worker";
  EXPECT_THAT(Ids(Lease("b", 1)), ElementsAre(1));
  rig_.now_ms += rig_.options.lease_ms + 1;
  EXPECT_THAT(Ids(Lease("a", 1)), ElementsAre(2)) << "nobody has taken it";
}

TEST_F(SchedulerBroken, AGroupThatFailedAtEveryWorkerMayGoToAnyOfThem) {
  EXPECT_EQ(LeaseAndFail("a"), 1u);
  EXPECT_EQ(LeaseAndFail("b"), 1u);
  EXPECT_THAT(Ids(Lease("a", 1)), ElementsAre(1));
}

// Every end of a lease that is no delivery has this cost.
TEST_F(SchedulerBroken, AWorkerThatDeliversNothingWhileOthersDoIsSetAsideAndNamed) {
  const std::vector<std::function<void()>> ends = {
      [this] { LeaseAndReturn("a", ReturnReason::kEngineFailed); },
      [this] { LeaseAndReturn("a", ReturnReason::kWeightsUnavailable, 1); },
      [this] { LeaseAndReturn("a", ReturnReason::kDraining, 1); },
      [this] {
        const LeaseRef kept = Lease("a", 1).at(0).ref;
        for (int i = 0; i < 3; ++i, Pass(90)) Ask("a", 0, {kept}), Ask("b", 0);
      },
      [this] {
        Lease("a", 3);
        Replace("a");
      },
      [this] {
        const LeaseRef lease = Lease("a", 1).at(0).ref;
        ++rig_.now_ms;
        rig_.scheduler.Refuse("a", 1, lease, rig_.now_ms, rig_.changes);
        rig_.Commit();
      },
      [this] {
        WorkerExchange refused;
        refused.worker_id = "a";
        refused.incarnation = 1;
        refused.finished = {Lease("a", 1).at(0).ref};
        rig_.Exchange(refused);
      },
  };
  for (std::size_t i = 0; i < ends.size(); ++i) {
    SCOPED_TRACE(i);
    rig_ = Rig();
    incarnation_["a"] = 1;
    for (int strike = 0; strike < Workers::kStrikes; ++strike) {
      ASSERT_EQ(OrderOf("a"), WorkerOrder::kNone);
      ends[i]();
      ++rig_.now_ms;
      LeaseAndDeliver("b");
    }
    ASSERT_EQ(OrderOf("a"), WorkerOrder::kCordon);
    EXPECT_THAT(rig_.scheduler.workers().orders().at("a").reason,
                HasSubstr("did not deliver groups 1"));
    EXPECT_THAT(Lease("a", 1), IsEmpty());
    EXPECT_EQ(rig_.Restore().workers().OrderOf("a"), WorkerOrder::kCordon) << "a restart keeps it";
    ASSERT_TRUE(rig_.scheduler.OrderWorker({"a", WorkerOrder::kNone, ""}, rig_.changes).ok());
    EXPECT_EQ(Strikes("a"), 0) << "it starts anew";
  }
}

TEST_F(SchedulerBroken, AWorkerThatDrainsIsNotStruck) {
  for (int i = 0; i < 2 * Workers::kStrikes; ++i) {
    LeaseAndReturn("a", ReturnReason::kDraining);
    LeaseAndDeliver("b");
  }
  EXPECT_EQ(Strikes("a"), 0);
}

TEST_F(SchedulerBroken, ADeliveryForgivesTheWorker) {
  for (int i = 0; i < 3 * Workers::kStrikes; ++i) {
    LeaseAndFail("a");
    LeaseAndDeliver("b");
    if (Strikes("a") == Workers::kStrikes - 1) LeaseAndDeliver("a");
  }
  EXPECT_EQ(OrderOf("a"), WorkerOrder::kNone);
}

TEST_F(SchedulerBroken, WhatIsLostAtOnceIsOneStrike) {
  const std::vector<GrantedLease> leases = Lease("a", 8);
  ASSERT_THAT(leases, SizeIs(8));
  for (const GrantedLease& lease : leases) {
    WorkerExchange failed;
    failed.worker_id = "a";
    failed.incarnation = 1;
    failed.returned = {{lease.ref, ReturnReason::kEngineFailed}};
    ++rig_.now_ms;
    rig_.Exchange(failed);
    LeaseAndDeliver("b");
  }
  EXPECT_EQ(Strikes("a"), 1);
}

TEST_F(SchedulerBroken, AnOutageThatStopsEverybodyAccusesNobody) {
  LeaseAndDeliver("b");
  for (int i = 0; i < 4; ++i) {
    LeaseAndReturn("a", ReturnReason::kWeightsUnavailable);
    LeaseAndReturn("b", ReturnReason::kWeightsUnavailable);
    rig_.now_ms += rig_.options.lease_ms / 2;
  }
  EXPECT_LE(Strikes("a"), 1);
  EXPECT_LE(Strikes("b"), 1);
}

TEST_F(SchedulerBroken, TheLastWorkerIsNeverSetAside) {
  const std::vector<GrantedLease> leases = Lease("b", 8);
  ASSERT_TRUE(rig_.scheduler.OrderWorker({"b", WorkerOrder::kDrain, ""}, rig_.changes).ok());
  for (const GrantedLease& lease : leases) {
    LeaseAndFail("a");
    ++rig_.now_ms;
    EXPECT_EQ(Deliver("b", lease), SubmitOutcome::kAccepted);
  }
  EXPECT_EQ(Strikes("a"), 8);
  EXPECT_EQ(OrderOf("a"), WorkerOrder::kNone);
}

// The prompt is at fault, and costs its neighbours nothing.
TEST_F(SchedulerBroken, AGroupBeyondItsLimitIsAtFaultWhateverElseItsWorkerHolds) {
  rig_.options.max_attempts = 1;
  rig_.scheduler = rig_.Restore();
  for (const char* worker : {"a", "b"}) rig_.Register(worker, 1);
  const LeaseRef wedged = Lease("a", 1).at(0).ref;
  for (int i = 0; i < 2; ++i) {
    Pass(80);
    Ask("a", 0, {wedged});
  }
  const LeaseRef other = Ask("a", 1, {wedged}).leases.at(0).ref;
  Pass(91);
  EXPECT_EQ(rig_.ReasonOf(wedged.group_id), DropReason::kPoison);
  EXPECT_EQ(rig_.StateOf(other.group_id), GroupState::kLeased);
}

// 32 calls a second for as long as the run lasts: without a cost they would be granted anew, each
// with a limit of its own.
TEST_F(SchedulerBroken, AWorkerThatNeverLoadsItsWeightsLeavesNoGroupBehind) {
  int regrants = 0;
  for (int i = 0; i < 100 && OrderOf("a") == WorkerOrder::kNone; ++i) {
    ++rig_.now_ms;
    for (const GrantedLease& lease : Ask("a", 1).leases) {
      WorkerExchange back;
      back.worker_id = "a";
      back.incarnation = 1;
      back.capacity = 1;
      back.returned = {{lease.ref, ReturnReason::kWeightsUnavailable}};
      ++rig_.now_ms;
      rig_.Exchange(back);
      ++regrants;
    }
    if (i % 8 == 0) LeaseAndDeliver("b");
  }
  EXPECT_EQ(OrderOf("a"), WorkerOrder::kCordon);
  EXPECT_LT(regrants, 50);
  EXPECT_EQ(rig_.scheduler.GetStatus().dropped[static_cast<std::size_t>(DropReason::kPoison)], 0);
}

// Every group of both workers is refused, as where their builds are others.
TEST_F(SchedulerBroken, RefusalsOfEveryWorkerWithoutADeliveryEndTheRun) {
  int refused = 0;
  const auto refuse = [&](const std::string& worker, const std::string& what) {
    rig_.Admit();
    Pass(101);  // so that a worker may have a group again that has failed at it
    for (const char* heard : {"a", "b"}) Ask(heard, 0);
    const LeaseRef lease = Lease(worker, 1).at(0).ref;
    ++rig_.now_ms;
    EXPECT_TRUE(rig_.scheduler.Refuse(worker, 1, lease, rig_.now_ms, rig_.changes));
    EXPECT_FALSE(rig_.scheduler.Refuse(worker, 1, lease, rig_.now_ms, rig_.changes));
    rig_.Commit();
    return rig_.scheduler.NoteRefusal(worker, "group " + std::to_string(++refused) + ": " + what);
  };
  const auto most = static_cast<int>(Refusals::kMost);
  for (int i = 0; i < 2 * most; ++i) ASSERT_TRUE(refuse("a", "unknown column").ok()) << "b may do";
  const Status status = refuse("b", "unknown column");
  EXPECT_EQ(ExitCode(status), 2) << "so that launch does not start the coordinator again";
  EXPECT_THAT(status.message(), HasSubstr(": unknown column; start coordinator and workers from"));

  // Another reason, or a delivery, begins anew.
  for (int i = 0; i + 1 < most; ++i)
    ASSERT_TRUE(refuse(i % 2 == 0 ? "a" : "b", "other sampling parameters").ok());
  LeaseAndDeliver("b");
  for (int i = 0; i + 1 < most; ++i)
    ASSERT_TRUE(refuse(i % 2 == 0 ? "a" : "b", "other sampling parameters").ok());
  EXPECT_FALSE(refuse("b", "other sampling parameters").ok());
}

}  // namespace
}  // namespace buttress
