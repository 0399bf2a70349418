// Tests the leases of workers that have not delivered a group yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Four groups, and the workers `a` and `new`; leases end after 250 ms.
class SchedulerTrial : public testing::Test {
 protected:
  static SchedulerRig Rig(std::int64_t max_attempts = 3) {
    SchedulerOptions options = SmallRun();
    options.max_attempts = max_attempts;
    options.steps = 10;
    options.lease_limit_ms = 250;
    SchedulerRig rig = SchedulerRig::Started(options);
    rig.scheduler.RegisterWorker("new", 1, {}, rig.now_ms, rig.changes);
    rig.Admit();
    return rig;
  }

  ExchangeReply Ask(const std::string& worker, std::int64_t capacity,
                    std::vector<LeaseRef> held = {}) {
    WorkerExchange request;
    request.worker_id = worker;
    request.incarnation = 1;
    request.capacity = capacity;
    request.held = std::move(held);
    return rig_.Exchange(request);
  }

  GrantedLease Lease(const std::string& worker, std::vector<LeaseRef> held = {}) {
    const ExchangeReply reply = Ask(worker, 1, std::move(held));
    BUTTRESS_CHECK(reply.leases.size() == 1, "there is a group for the worker");
    return reply.leases.front();
  }

  SubmitOutcome Deliver(const std::string& worker, const GrantedLease& lease) {
    Submission submission = SchedulerRig::MakeSubmission(lease, lease.min_version,
                                                         {Outcome::kCorrect, Outcome::kWrong});
    submission.worker_id = worker;
    submission.content_sha256 = Sha256Of(worker);
    return rig_.Submit(submission);
  }

  // `a` delivers group 1, `new` holds group 2, and `a` has delivered the others.
  GrantedLease LeaveOneGroupWithTheNewWorker() {
    EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
    GrantedLease kept = Lease("new");
    EXPECT_EQ(kept.ref, (LeaseRef{2, 1}));
    for (const std::uint64_t id : {3u, 4u}) {
      const GrantedLease lease = Lease("a");
      EXPECT_EQ(lease.ref.group_id, id) << "pending groups come first";
      EXPECT_EQ(Deliver("a", lease), SubmitOutcome::kAccepted);
    }
    return kept;
  }

  void PassTime(std::int64_t ms) {
    rig_.now_ms += ms;
    rig_.scheduler.Expire(rig_.now_ms, rig_.changes);
    rig_.Commit();
  }

  SchedulerRig rig_ = Rig();
};

TEST_F(SchedulerTrial, FailuresAtWorkersOnTrialDropNoGroup) {
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::string stranger = "stranger" + std::to_string(i);
    WorkerExchange request;
    request.worker_id = stranger;
    request.incarnation = 1;
    rig_.scheduler.RegisterWorker(stranger, 1, {}, rig_.now_ms, rig_.changes);
    request.returned = {{Lease(stranger).ref, ReturnReason::kEngineFailed}};
    rig_.Exchange(request);

    rig_.scheduler.RegisterWorker("new", 100 + i, {}, rig_.now_ms, rig_.changes);
    request.worker_id = "new";
    request.incarnation = 100 + i;
    request.returned.clear();
    request.capacity = 1;
    EXPECT_THAT(rig_.Exchange(request).leases, SizeIs(1)) << "lost with its process";
  }
  for (const std::uint64_t id : {2u, 3u, 4u}) {
    ASSERT_NE(rig_.scheduler.groups().Find(id), nullptr);
    EXPECT_NE(rig_.scheduler.groups().Find(id)->state, GroupState::kDropped);
  }
}

TEST_F(SchedulerTrial, AGroupThatAProvenWorkerKeepsToTheLimitHasFailedThere) {
  rig_ = Rig(1);
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  EXPECT_EQ(Deliver("new", Lease("new")), SubmitOutcome::kAccepted);
  const LeaseRef kept = Lease("a").ref;
  for (int i = 0; i < 4; ++i) {
    Ask("a", 0, {kept});
    PassTime(80);
  }
  EXPECT_EQ(rig_.scheduler.groups().Find(kept.group_id), nullptr) << "it is dropped";
}

TEST_F(SchedulerTrial, AnIdleWorkerGetsTheGroupOfOneThatHasDeliveredNone) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  EXPECT_FALSE(rig_.scheduler.MayLease()) << "no worker waits for a group";
  const GrantedLease shared = Lease("a");
  EXPECT_EQ(shared.ref, (LeaseRef{2, 2}));
  EXPECT_EQ(shared.min_version, kept.min_version);
  EXPECT_EQ(rig_.scheduler.events().leases_shared, 1);
  EXPECT_THAT(Ask("a", 1, {shared.ref}).leases, IsEmpty()) << "a lease is shared once";
  EXPECT_EQ(Deliver("a", shared), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_.ledger.groups.at(2).worker_id, "a");
  EXPECT_THAT(rig_.PlannedIds(1), ElementsAre(1, 2));
}

TEST_F(SchedulerTrial, TheFirstResultCountsWhoeverDeliversIt) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  const GrantedLease shared = Lease("a");
  EXPECT_THAT(Ask("new", 0, {kept.ref}).revoked, IsEmpty());
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kAccepted);
  const GroupRow& group = rig_.ledger.groups.at(2);
  EXPECT_EQ(group.worker_id, "new");
  EXPECT_EQ(group.lease_epoch, rig_.ledger.accepted.at(2).lease_epoch);
  EXPECT_EQ(group.attempts, 1);
  EXPECT_EQ(Deliver("a", shared), SubmitOutcome::kStaleFence);
  EXPECT_THAT(Ask("a", 0, {shared.ref}).revoked, ElementsAre(shared.ref));
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kDuplicate);
}

TEST_F(SchedulerTrial, AWorkerWhoseResultComesSecondHasDelivered) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  EXPECT_THAT(Ask("new", 0, {kept.ref}).revoked, IsEmpty()) << "it goes on";
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kStaleFence);
  EXPECT_THAT(Ask("new", 0, {kept.ref}).revoked, ElementsAre(kept.ref));

  EXPECT_THAT(rig_.PlannedIds(1), SizeIs(2));
  ASSERT_TRUE(rig_.Train(1).ok());
  rig_.Announce(1);
  rig_.Admit();
  Ask("new", 2);
  EXPECT_THAT(Ask("a", 1).leases, IsEmpty()) << "its leases are its own now";
}

TEST_F(SchedulerTrial, NobodyIsOnTrialBeforeTheFirstGroupIsDelivered) {
  EXPECT_THAT(Ask("new", 3).leases, SizeIs(3)) << "as many as it has room for";
  EXPECT_THAT(Ask("a", 3).leases, SizeIs(1)) << "and the others none of them";
}

TEST_F(SchedulerTrial, AWorkerOnTrialHoldsNoMoreThanTheOthers) {
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  const GrantedLease kept = Lease("new");
  EXPECT_THAT(Ask("new", 2, {kept.ref}).leases, IsEmpty()) << "nobody else holds a group";
  const std::vector<GrantedLease> rest = Ask("a", 3).leases;
  ASSERT_THAT(rest, SizeIs(3));
  for (const GrantedLease& lease : rest)
    EXPECT_EQ(Deliver("a", lease), SubmitOutcome::kAccepted) << lease.ref.group_id;
  EXPECT_THAT(rig_.PlannedIds(1), SizeIs(2));
  ASSERT_TRUE(rig_.Train(1).ok());
  rig_.Announce(1);
  rig_.Admit();
  EXPECT_THAT(Ask("new", 1, {kept.ref}).leases, IsEmpty()) << "the shared lease is still its own";
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kStaleFence);
  EXPECT_THAT(Ask("new", 2).leases, SizeIs(2));
}

TEST_F(SchedulerTrial, ASharedLeaseThatItsWorkerNeverReceivedIsForgotten) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  const GrantedLease shared = Lease("a");
  EXPECT_THAT(Ask("new", 0).leases, IsEmpty());
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kStaleFence);
  EXPECT_EQ(Deliver("a", shared), SubmitOutcome::kAccepted);
}

TEST_F(SchedulerTrial, AnotherProcessOfTheWorkerDeliversNothingForTheOldOne) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  Lease("a");
  rig_.scheduler.RegisterWorker("new", 2, {}, rig_.now_ms, rig_.changes);
  EXPECT_EQ(Deliver("new", kept), SubmitOutcome::kStaleFence);
}

TEST_F(SchedulerTrial, ASharedLeaseOfWeightsThatAreGoneDropsNothing) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  const GrantedLease shared = Lease("a");
  rig_.StartLearner({});
  Submission late = SchedulerRig::MakeSubmission(kept, {1, 1, ""}, {Outcome::kCorrect});
  late.worker_id = "new";
  EXPECT_NE(rig_.Submit(late), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_.StateOf(2), GroupState::kLeased);
  EXPECT_EQ(Deliver("a", shared), SubmitOutcome::kAccepted);
}

TEST_F(SchedulerTrial, AWorkerThatNeverDeliversIsSetAside) {
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig_.scheduler.OrderOf("new"), WorkerOrder::kNone);
    const GrantedLease kept = Lease("new");
    while (!rig_.scheduler.groups().pending().empty()) Deliver("a", Lease("a"));
    EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
    for (int renewed = 0; renewed < 3; ++renewed) {
      EXPECT_THAT(Ask("new", 1, {kept.ref}).revoked, IsEmpty());
      Ask("a", 0);
      PassTime(90);
    }
    EXPECT_THAT(Ask("new", 0, {kept.ref}).revoked, ElementsAre(kept.ref)) << "at its limit";
    const auto step = static_cast<std::uint64_t>(i) + 1;
    ASSERT_THAT(rig_.PlannedIds(step), SizeIs(2));
    ASSERT_TRUE(rig_.Train(step).ok());
    rig_.Announce(step);
    rig_.Admit();
  }
  EXPECT_EQ(rig_.scheduler.OrderOf("new"), WorkerOrder::kCordon);
}

TEST_F(SchedulerTrial, AWorkerThatKeepsALeaseToItsLimitIsOnTrialAgain) {
  EXPECT_EQ(Deliver("new", Lease("new")), SubmitOutcome::kAccepted);
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  const GrantedLease kept = Lease("new");
  EXPECT_EQ(Deliver("a", Lease("a")), SubmitOutcome::kAccepted);
  EXPECT_THAT(Ask("a", 1).leases, IsEmpty()) << "the other worker is proven";
  for (int renewed = 0; renewed < 3; ++renewed) {
    Ask("new", 0, {kept.ref});
    Ask("a", 0);
    PassTime(90);
  }
  EXPECT_EQ(rig_.StateOf(3), GroupState::kPending);
  PassTime(rig_.options.lease_ms + 1);
  EXPECT_EQ(Lease("new").ref.group_id, 3u);
  EXPECT_EQ(Lease("a").ref.group_id, 3u);
}

TEST_F(SchedulerTrial, ARestartRemembersWhoDelivered) {
  const GrantedLease kept = LeaveOneGroupWithTheNewWorker();
  rig_.scheduler = rig_.Restore();
  for (const char* worker : {"a", "new"})
    rig_.scheduler.RegisterWorker(worker, 1, {}, rig_.now_ms, rig_.changes);
  rig_.Commit();
  EXPECT_THAT(Ask("new", 0, {kept.ref}).revoked, IsEmpty());
  EXPECT_EQ(Lease("a").ref, (LeaseRef{2, 2}));
}

// Groups enough to know how long one takes, and two workers that have delivered some.
class SchedulerLate : public testing::Test {
 protected:
  static constexpr std::int64_t kGroupMs = 400;
  static constexpr std::int64_t kLateMs = LeaseTimes::kLateMedians * kGroupMs;
  static constexpr std::int64_t kGroups = 40;

  void SetUp() override {
    SchedulerOptions options = SmallRun();
    options.steps = 100;
    options.prompts = kGroups;
    options.lease_ms = 100 * kLateMs;
    options.lease_limit_ms = 100 * kLateMs;
    rig_ = SchedulerRig::Started(options);
    rig_.scheduler.RegisterWorker("b", 1, {}, rig_.now_ms, rig_.changes);
    rig_.Admit();
    for (std::size_t i = 0; i < LeaseTimes::kEnough; ++i) {
      const std::string worker = i % 2 == 0 ? "a" : "b";
      const GrantedLease lease = Lease(worker, 1).at(0);
      Pass(kGroupMs);
      ASSERT_EQ(Deliver(worker, lease), SubmitOutcome::kAccepted);
    }
  }

  std::vector<GrantedLease> Lease(const std::string& worker, std::int64_t capacity,
                                  const std::vector<GrantedLease>& held = {}) {
    WorkerExchange request;
    request.worker_id = worker;
    request.incarnation = 1;
    request.capacity = capacity;
    for (const GrantedLease& lease : held) request.held.push_back(lease.ref);
    return rig_.Exchange(request).leases;
  }

  SubmitOutcome Deliver(const std::string& worker, const GrantedLease& lease) {
    Submission submission = SchedulerRig::MakeSubmission(lease, lease.min_version,
                                                         {Outcome::kCorrect, Outcome::kWrong});
    submission.worker_id = worker;
    submission.content_sha256 = Sha256Of(worker);
    return rig_.Submit(submission);
  }

  void Pass(std::int64_t ms) {
    rig_.now_ms += ms;
    rig_.scheduler.Expire(rig_.now_ms, rig_.changes);
    rig_.Commit();
  }

  // `a` delivers all groups of two steps but two, which `b` takes, and has nothing to do.
  std::vector<GrantedLease> KeepTwo() {
    const std::int64_t others = 2 * kGroups - static_cast<std::int64_t>(LeaseTimes::kEnough) - 2;
    const std::vector<GrantedLease> leases = Lease("a", others);
    Pass(kGroupMs);
    for (const GrantedLease& lease : leases) Deliver("a", lease);
    std::vector<GrantedLease> kept = Lease("b", 1000);
    EXPECT_THAT(kept, SizeIs(2));
    EXPECT_THAT(Lease("a", 1000), IsEmpty());
    return kept;
  }

  SchedulerRig rig_;
};

TEST_F(SchedulerLate, AnIdleWorkerGetsTheGroupsThatAProvenOneKeepsTooLong) {
  const std::vector<GrantedLease> kept = KeepTwo();
  Pass(kLateMs - 1);
  EXPECT_FALSE(rig_.scheduler.MayLease());
  EXPECT_THAT(Lease("a", 1000), IsEmpty()) << "they are not late";
  Pass(2);
  EXPECT_TRUE(rig_.scheduler.MayLease());
  const std::vector<GrantedLease> shared = Lease("a", 1000);
  EXPECT_THAT(shared, SizeIs(2));
  EXPECT_THAT(Lease("b", 0, kept), IsEmpty());
  EXPECT_EQ(Deliver("b", kept.at(0)), SubmitOutcome::kAccepted) << "the first result counts";
  EXPECT_EQ(Deliver("a", shared.at(1)), SubmitOutcome::kAccepted);
}

TEST_F(SchedulerLate, AWorkerKeepsLateGroupsThatNobodyElseCouldSample) {
  Lease("b", 2);
  Lease("a", 1);
  Pass(10 * kLateMs);
  EXPECT_THAT(Lease("a", 1), SizeIs(1)) << "there are pending groups";
  EXPECT_EQ(rig_.scheduler.events().leases_shared, 0);
}

TEST_F(SchedulerLate, AWorkerGetsNothingForLateGroupsUntilItDeliversThem) {
  const std::vector<GrantedLease> kept = KeepTwo();
  Pass(kLateMs + 1);
  for (const GrantedLease& lease : Lease("a", 1000))
    EXPECT_EQ(Deliver("a", lease), SubmitOutcome::kAccepted);
  ASSERT_THAT(rig_.PlannedIds(1), SizeIs(kGroups));
  ASSERT_TRUE(rig_.Train(1).ok());
  rig_.Announce(1);
  rig_.Admit();
  EXPECT_THAT(Lease("b", 2, kept), IsEmpty());
  for (const GrantedLease& lease : kept)
    EXPECT_EQ(Deliver("b", lease), SubmitOutcome::kStaleFence) << "second, and counted";
  EXPECT_THAT(Lease("b", 2), SizeIs(1)) << "on trial, while the others hold none";
}

}  // namespace
}  // namespace buttress
