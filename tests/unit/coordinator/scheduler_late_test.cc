// Tests groups that are late: an idle worker takes them over, and the first result wins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Four groups and the workers `a`, `b` and `c`; a group takes a second.
class SchedulerLate : public testing::Test {
 protected:
  static constexpr std::int64_t kGroupMs = 1000;
  static constexpr std::int64_t kLateMs = Leases::kLateMedians * kGroupMs;

  void SetUp() override {
    SchedulerOptions options = SmallRun();
    options.steps = 100;
    options.lease_ms = 100 * kLateMs;
    rig_ = SchedulerRig::Started(options);
    for (const char* worker : {"b", "c"}) rig_.Register(worker, 1);
    rig_.Admit();
    const GrantedLease first = Lease("a", 1).at(0);
    Pass(kGroupMs);
    ASSERT_EQ(Deliver("a", first), SubmitOutcome::kAccepted);
  }

  ExchangeReply Ask(const std::string& worker, std::int64_t capacity,
                    const std::vector<GrantedLease>& held = {}) {
    WorkerExchange request;
    request.worker_id = worker;
    request.incarnation = 1;
    request.capacity = capacity;
    for (const GrantedLease& lease : held) request.held.push_back(lease.ref);
    return rig_.Exchange(request);
  }

  std::vector<GrantedLease> Lease(const std::string& worker, std::int64_t capacity,
                                  const std::vector<GrantedLease>& held = {}) {
    return Ask(worker, capacity, held).leases;
  }

  void GiveBack(const std::string& worker, const LeaseRef& ref, ReturnReason reason) {
    WorkerExchange request;
    request.worker_id = worker;
    request.incarnation = 1;
    request.returned = {{ref, reason}};
    rig_.Exchange(request);
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

  int Strikes(const std::string& worker) const {
    return rig_.scheduler.workers().known().at(worker).strikes.count;
  }

  SchedulerRig rig_;
};

TEST_F(SchedulerLate, AnIdleWorkerTakesAGroupAfterSoManyMedians) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  ASSERT_THAT(kept, SizeIs(3));
  Pass(kLateMs - 1);
  EXPECT_FALSE(rig_.scheduler.MayLease());
  EXPECT_THAT(Lease("a", 8), IsEmpty()) << "they are not late";
  Pass(1);
  EXPECT_TRUE(rig_.scheduler.MayLease());
  EXPECT_THAT(Lease("b", 8, kept), IsEmpty()) << "it has them";
  const std::vector<GrantedLease> taken = Lease("a", 8);
  ASSERT_THAT(taken, SizeIs(3));
  EXPECT_EQ(taken[0].ref, (LeaseRef{2, 2}));
  EXPECT_EQ(taken[0].min_version, kept[0].min_version);
  EXPECT_EQ(rig_.scheduler.events().leases_shared, 3);
  EXPECT_EQ(rig_.ledger.groups.at(2).attempts, 1) << "it is no further attempt";
}

TEST_F(SchedulerLate, PendingGroupsComeFirst) {
  const std::vector<GrantedLease> kept = Lease("b", 1);
  Pass(kLateMs);
  const std::vector<GrantedLease> leases = Lease("a", 2);
  ASSERT_THAT(leases, SizeIs(2));
  EXPECT_NE(leases[0].ref.group_id, kept[0].ref.group_id);
  EXPECT_EQ(rig_.scheduler.events().leases_shared, 0);
}

TEST_F(SchedulerLate, EachFurtherWorkerWaitsAsLongAgain) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  Pass(kLateMs);
  ASSERT_THAT(Lease("a", 8), SizeIs(3));
  EXPECT_THAT(Lease("c", 8), IsEmpty()) << "two workers have them";
  Pass(kLateMs);
  EXPECT_THAT(Lease("c", 8), SizeIs(3)) << "two workers keep them";
  EXPECT_THAT(rig_.scheduler.leases().OfGroup(2), SizeIs(3));
}

TEST_F(SchedulerLate, TheAgeCountsFromTheFirstGrantWhoeverGaveTheGroupBack) {
  const std::vector<GrantedLease> first = Lease("b", 3);
  Pass(kLateMs / 2);
  for (const GrantedLease& lease : first) GiveBack("b", lease.ref, ReturnReason::kDraining);
  ASSERT_THAT(Lease("c", 3), SizeIs(3));
  Pass(kLateMs / 2);
  EXPECT_THAT(Lease("a", 8), SizeIs(3));
}

TEST_F(SchedulerLate, TheFirstResultWinsAndTheOtherLeaseEnds) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  Pass(kLateMs);
  const std::vector<GrantedLease> taken = Lease("a", 3);
  EXPECT_THAT(Ask("b", 0, kept).revoked, IsEmpty()) << "both may deliver";
  EXPECT_EQ(Deliver("b", kept[0]), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_.ledger.groups.at(2).worker_id, "b");
  EXPECT_EQ(rig_.ledger.accepted.at(2).lease_epoch, kept[0].ref.lease_epoch);
  EXPECT_EQ(Deliver("a", taken[0]), SubmitOutcome::kStaleFence);
  EXPECT_EQ(Deliver("b", kept[0]), SubmitOutcome::kDuplicate);
  EXPECT_THAT(Ask("a", 0, taken).revoked, ElementsAre(taken[0].ref));
  EXPECT_EQ(Strikes("a"), 0) << "who took a late group has done nothing wrong";
  EXPECT_EQ(Deliver("a", taken[1]), SubmitOutcome::kAccepted);
  EXPECT_THAT(Ask("b", 0, kept).revoked, ElementsAre(kept[1].ref));
  EXPECT_EQ(Strikes("b"), 1) << "who was overtaken has not delivered";
}

TEST_F(SchedulerLate, AGroupStaysWithThoseThatHaveItWhileOneFails) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  Pass(kLateMs);
  const std::vector<GrantedLease> taken = Lease("a", 3);
  GiveBack("a", taken[0].ref, ReturnReason::kEngineFailed);
  EXPECT_EQ(rig_.StateOf(2), GroupState::kLeased);
  EXPECT_EQ(rig_.ledger.groups.at(2).attempts, 2) << "the failure counts";
  EXPECT_EQ(Deliver("b", kept[0]), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_.ledger.groups.at(2).worker_id, "b");
  GiveBack("b", kept[1].ref, ReturnReason::kWeightsUnavailable);
  EXPECT_EQ(rig_.ledger.groups.at(3).attempts, 1) << "the prompt did nothing";
  EXPECT_EQ(Deliver("a", taken[1]), SubmitOutcome::kAccepted);
}

// Else whoever held the newest lease before could be taken for the holder of the next one.
TEST_F(SchedulerLate, NoEpochIsGivenTwiceAfterAnOlderLeaseHasWon) {
  ASSERT_EQ(Deliver("b", Lease("b", 1).at(0)), SubmitOutcome::kAccepted);
  ASSERT_TRUE(rig_.Plan(1)->plan.has_value());
  ASSERT_TRUE(rig_.Train(1).ok());
  rig_.Announce(1);
  const GrantedLease kept = Lease("b", 2).at(0);
  Pass(kLateMs);
  const std::vector<GrantedLease> taken = Lease("a", 1);
  ASSERT_EQ(taken.at(0).ref, (LeaseRef{kept.ref.group_id, kept.ref.lease_epoch + 1}));
  Submission first = SchedulerRig::MakeSubmission(kept, {1, 1, ""}, {Outcome::kCorrect});
  first.worker_id = "b";
  ASSERT_EQ(rig_.Submit(first), SubmitOutcome::kAccepted);
  rig_.StartLearner({});
  rig_.Announce(0);
  ASSERT_EQ(rig_.StateOf(kept.ref.group_id), GroupState::kPending);
  EXPECT_EQ(Lease("c", 1).at(0).ref, (LeaseRef{kept.ref.group_id, kept.ref.lease_epoch + 2}));
}

TEST_F(SchedulerLate, ATakenGroupOfWeightsThatAreGoneStaysWithTheOther) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  Pass(kLateMs);
  const std::vector<GrantedLease> taken = Lease("a", 3);
  rig_.StartLearner({});
  Submission late = SchedulerRig::MakeSubmission(kept[0], {1, 1, ""}, {Outcome::kCorrect});
  late.worker_id = "b";
  EXPECT_NE(rig_.Submit(late), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_.StateOf(2), GroupState::kLeased);
  EXPECT_EQ(Deliver("a", taken[0]), SubmitOutcome::kAccepted);
}

TEST_F(SchedulerLate, BeforeTheFirstDeliveryALeaseTimeStandsForTheMedian) {
  SchedulerOptions options = SmallRun();
  options.lease_ms = kGroupMs;
  rig_ = SchedulerRig::Started(options);
  rig_.Register("b", 1);
  rig_.Admit();
  const std::vector<GrantedLease> kept = Lease("b", 4);
  for (std::int64_t passed = 0; passed < kLateMs; passed += kGroupMs / 2) {
    EXPECT_THAT(Lease("a", 8), IsEmpty());
    Ask("b", 0, kept);
    Pass(kGroupMs / 2);
  }
  EXPECT_THAT(Lease("a", 8), SizeIs(4));
}

TEST_F(SchedulerLate, ARestartKeepsTheNewestLease) {
  const std::vector<GrantedLease> kept = Lease("b", 3);
  Pass(kLateMs);
  const std::vector<GrantedLease> taken = Lease("a", 3);
  rig_.scheduler = rig_.Restore();
  for (const char* worker : {"a", "b"}) rig_.Register(worker, 1);
  rig_.Commit();
  EXPECT_THAT(Ask("b", 0, kept).revoked, SizeIs(3));
  EXPECT_THAT(Ask("a", 0, taken).revoked, IsEmpty());
  EXPECT_EQ(Deliver("a", taken[0]), SubmitOutcome::kAccepted);
}

}  // namespace
}  // namespace buttress
