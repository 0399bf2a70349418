// Tests leases: which worker gets which prompt, until when, and with which weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/os/clock.h"
#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(SchedulerLease, NothingIsLeasedBeforeTheFirstVersionIsAnnounced) {
  SchedulerRig rig;
  rig.StartLearner({});
  rig.Register("a", 1);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  EXPECT_THAT(rig.Exchange(10).leases, IsEmpty());
  rig.Announce(0);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 4);  // (1 + 1) * 2
}

TEST(SchedulerLease, PromptsAreLeasedInAdmissionOrderUpToTheCapacity) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const ExchangeReply reply = rig.Exchange(3);
  EXPECT_THAT(Ids(reply.leases), ElementsAre(1, 2, 3));
  EXPECT_EQ(reply.leases[0].ref.lease_epoch, 1);
  EXPECT_EQ(reply.leases[0].prompt.prompt_id, "p0");
  EXPECT_EQ(reply.leases[0].ttl_ms, 100);
  EXPECT_EQ(reply.leases[0].min_version, (PolicyVersion{1, 0, Sha256Of("0")}));
}

TEST(SchedulerLease, AWorkerThatIsNotRegisteredMustRegister) {
  SchedulerRig rig = SchedulerRig::Started();
  WorkerExchange request;
  request.worker_id = "b";
  EXPECT_EQ(rig.scheduler.Exchange(request, 0, rig.changes).status().code(), StatusCode::kNotFound);
  request.worker_id = "a";
  request.incarnation = 2;
  EXPECT_EQ(rig.scheduler.Exchange(request, 0, rig.changes).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(rig.changes.empty());
}

TEST(SchedulerLease, WorkersBeyondTheMostAreRefusedUntilSilentOnesAreForgotten) {
  SchedulerRig rig = SchedulerRig::Started();
  for (std::size_t i = 1; i < kMaxWorkers; ++i) rig.Register("w" + std::to_string(i), 1);
  const auto join = [&] {
    return rig.scheduler.RegisterWorker({"new", 1}, rig.now_ms, rig.changes).code();
  };
  EXPECT_EQ(join(), StatusCode::kResourceExhausted);
  rig.Register("a", 1);
  rig.now_ms += 21 * rig.options.lease_ms;
  rig.scheduler.Expire(rig.now_ms, rig.changes);
  EXPECT_EQ(join(), StatusCode::kOk);
}

TEST(SchedulerLease, LeasesThatTheWorkerDoesNotNameAreGrantedAgainWithTheSameEpoch) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const ExchangeReply lost = rig.Exchange(2);
  const ExchangeReply again = rig.Exchange(2);
  EXPECT_EQ(Ids(again.leases), Ids(lost.leases));
  EXPECT_EQ(again.leases[1].ref, lost.leases[1].ref);
  EXPECT_EQ(rig.ledger.groups.at(1).attempts, 1);
  EXPECT_THAT(Ids(rig.Exchange(1, {lost.leases[0].ref, lost.leases[1].ref}).leases),
              ElementsAre(3));
}

TEST(SchedulerLease, AnExpiredLeaseIsGrantedAgainWithANewEpoch) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const GrantedLease first = rig.Exchange(1).leases[0];
  EXPECT_EQ(rig.scheduler.NextExpiryMs(), 1100);
  rig.now_ms = 1100;
  rig.scheduler.Expire(rig.now_ms, rig.changes);
  rig.Commit();
  EXPECT_EQ(rig.StateOf(1), GroupState::kPending);
  const GrantedLease second = rig.Exchange(1).leases[0];
  EXPECT_EQ(second.ref, (LeaseRef{1, 2}));
  EXPECT_THAT(rig.Exchange(0, {first.ref, second.ref}).revoked, ElementsAre(first.ref));
  EXPECT_EQ(rig.Submit(first), SubmitOutcome::kStaleFence);
  EXPECT_EQ(rig.Submit(second), SubmitOutcome::kAccepted);
}

TEST(SchedulerLease, AnExchangeRenewsTheLeasesOfTheWorker) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const GrantedLease lease = rig.Exchange(1).leases[0];
  rig.now_ms = 1090;
  rig.Exchange(0, {lease.ref});
  rig.scheduler.Expire(1150, rig.changes);
  EXPECT_TRUE(rig.changes.empty());
  EXPECT_EQ(rig.scheduler.NextExpiryMs(), 1190);
}

TEST(SchedulerLease, ALeaseThatIsRenewedWithoutEndEndsAtItsLimit) {
  SchedulerOptions options = SmallRun();
  options.lease_limit_ms = 250;
  auto rig = SchedulerRig::Started(options);
  rig.Admit();
  const LeaseRef wedged = rig.Exchange(1).leases.front().ref;
  for (const std::int64_t passed_ms : {80, 80, 80}) {
    rig.now_ms += passed_ms;
    rig.scheduler.Expire(rig.now_ms, rig.changes);
    EXPECT_THAT(rig.Exchange(0, {wedged}).revoked, IsEmpty());
  }
  rig.now_ms += 20;
  rig.scheduler.Expire(rig.now_ms, rig.changes);
  EXPECT_THAT(rig.Exchange(0, {wedged}).revoked, ElementsAre(wedged));
  EXPECT_EQ(rig.scheduler.events().leases_expired, 1);
}

TEST(SchedulerLease, AGroupThatFailsTooOftenIsDroppedAsPoisonAndReplaced) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(rig.StateOf(1), GroupState::kPending);
    WorkerExchange failed;
    failed.worker_id = "a";
    failed.incarnation = 1;
    failed.returned = {{rig.Exchange(1).leases[0].ref, ReturnReason::kEngineFailed}};
    rig.Exchange(failed);
  }
  EXPECT_EQ(rig.StateOf(1), GroupState::kDropped);
  EXPECT_EQ(rig.ReasonOf(1), DropReason::kPoison);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 1);
}

// Lets worker `a` come back as a new process whenever it holds `culprit`, until that is poison;
// whatever it holds without the culprit is submitted. Returns how often the worker was lost.
int LoseTheWorkerUntilPoison(SchedulerRig& rig, std::uint64_t culprit, bool expire) {
  int lost = 0;
  for (std::uint64_t incarnation = 1; lost < 100; ++lost) {
    std::vector<GrantedLease> held;
    for (bool crash = false; !crash;) {
      if (rig.StateOf(culprit) == GroupState::kDropped) return lost;
      WorkerExchange ask;
      ask.worker_id = "a";
      ask.incarnation = incarnation;
      ask.capacity = 4;
      held = rig.Exchange(ask).leases;
      BUTTRESS_CHECK(!held.empty(), "an idle worker is given a group");
      for (const GrantedLease& lease : held) crash = crash || lease.ref.group_id == culprit;
      for (const GrantedLease& lease : held) {
        if (crash) break;
        Submission submission = SchedulerRig::MakeSubmission(lease, lease.min_version,
                                                             {Outcome::kCorrect, Outcome::kWrong});
        submission.incarnation = incarnation;
        BUTTRESS_CHECK(rig.Submit(submission) == SubmitOutcome::kAccepted, "the group is good");
      }
    }
    if (expire) {
      rig.now_ms += rig.options.lease_ms;
      rig.scheduler.Expire(rig.now_ms, rig.changes);
    }
    rig.Register("a", ++incarnation);
    rig.Commit();
  }
  return lost;
}

TEST(SchedulerLease, APromptThatKillsItsWorkersCostsNoOtherGroupAnAttempt) {
  for (const bool expire : {false, true}) {
    for (const std::uint64_t culprit : {1u, 3u, 4u}) {
      SchedulerRig rig = SchedulerRig::Started();
      rig.Admit();
      ASSERT_EQ(rig.ledger.groups.size(), 4U);
      // With four groups, with two, and then three times alone.
      EXPECT_EQ(LoseTheWorkerUntilPoison(rig, culprit, expire), 5);
      for (const auto& [id, group] : rig.ledger.groups) {
        if (id == culprit) continue;
        EXPECT_NE(group.state, GroupState::kDropped) << id;
        EXPECT_LE(group.attempts, 1) << id;
      }
      EXPECT_EQ(rig.ReasonOf(culprit), DropReason::kPoison);
    }
  }
}

TEST(SchedulerLease, OfTwoProcessesWithOneIdTheNewerStays) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Register("a", 2);
  rig.Register("a", 2);
  const Status older = rig.scheduler.RegisterWorker({"a", 1}, rig.now_ms, rig.changes);
  EXPECT_EQ(older.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(older.message(), HasSubstr("worker id 'a' belongs to another process"));
}

TEST(SchedulerLease, AnIdInUseIsReplacedAtOnceOnlyByWhoNamesItsSecret) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto join = [&](std::uint64_t incarnation, const std::string& secret) {
    return rig.scheduler.RegisterWorker({"b", incarnation, {}, "", "", secret}, rig.now_ms,
                                        rig.changes);
  };
  ASSERT_TRUE(join(1, "own").ok());
  EXPECT_TRUE(join(1, "own").ok()) << "the answer was lost";
  EXPECT_EQ(join(1, "other").code(), StatusCode::kUnavailable);
  const Status taken = join(2, "other");
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_THAT(taken.message(), HasSubstr("which called 0 ms ago"));
  EXPECT_TRUE(rig.scheduler.workers().CheckCaller("b", 1, "own").ok());
  EXPECT_EQ(rig.scheduler.workers().CheckCaller("b", 1, "other").code(),
            StatusCode::kPermissionDenied);
  ASSERT_TRUE(join(3, "own").ok()) << "restarted after a crash";
  rig.now_ms += rig.options.lease_ms + 1;
  EXPECT_TRUE(join(4, "other").ok()) << "the other one is silent";
  EXPECT_EQ(rig.scheduler.workers().CheckCaller("b", 4, "own").code(),
            StatusCode::kPermissionDenied);
}

TEST(SchedulerLease, AWorkerOfAnotherRunOrOfANewerLedgerIsTold) {
  SchedulerOptions options = SmallRun();
  options.new_run_id = "run-a";
  options.start_id = "s1";
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto join = [&](const std::string& run_id, const std::string& start_id) {
    return rig.scheduler.RegisterWorker({"a", 1, {}, run_id, start_id}, rig.now_ms, rig.changes);
  };
  EXPECT_TRUE(join("", "").ok());  // a new process
  EXPECT_TRUE(join("run-a", "s1").ok());
  rig.options.start_id = "s2";
  rig.options.new_run_id = "run-b";  // counts for a new ledger alone
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.run().run_id, "run-a");
  EXPECT_TRUE(join("run-a", "s1").ok());
  EXPECT_TRUE(join("run-a", "s2").ok());
  const Status foreign = join("run-b", "s1");
  EXPECT_EQ(foreign.code(), StatusCode::kAborted);
  EXPECT_THAT(foreign.message(), HasSubstr("belongs to run run-b, and this is run run-a"));
  const Status newer = join("run-a", "s3");
  EXPECT_EQ(newer.code(), StatusCode::kAborted);
  EXPECT_THAT(newer.message(), HasSubstr("start s3 of the coordinator of run run-a"));
}

TEST(SchedulerLease, ADrainingWorkerDoesNotPoisonItsPrompts) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  for (int attempt = 0; attempt < 10; ++attempt) {
    WorkerExchange drained;
    drained.worker_id = "a";
    drained.incarnation = 1;
    drained.returned = {{rig.Exchange(1).leases[0].ref, ReturnReason::kDraining}};
    rig.Exchange(drained);
  }
  EXPECT_EQ(rig.StateOf(1), GroupState::kPending);
  EXPECT_EQ(rig.ledger.groups.at(1).attempts, 0);
  EXPECT_EQ(rig.ledger.groups.at(1).lease_epoch, 10);
}

TEST(SchedulerLease, AFinishedGroupThatWasNotAcceptedBecomesPending) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  WorkerExchange request;
  request.worker_id = "a";
  request.incarnation = 1;
  request.finished = {rig.Exchange(1).leases[0].ref};
  EXPECT_THAT(rig.Exchange(request).leases, IsEmpty());
  EXPECT_EQ(rig.StateOf(1), GroupState::kPending);
}

TEST(SchedulerLease, AnAcceptedLeaseThatIsStillNamedIsNotRevoked) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const GrantedLease lease = rig.Exchange(1).leases[0];
  rig.Submit(lease);
  EXPECT_THAT(rig.Exchange(0, {lease.ref}).revoked, IsEmpty());
}

TEST(SchedulerLease, ANewIncarnationDropsTheLeasesOfTheOldOneAndTheSameOneKeepsThem) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const GrantedLease lease = rig.Exchange(1).leases[0];
  rig.Register("a", 1);
  rig.Commit();
  EXPECT_EQ(rig.StateOf(1), GroupState::kLeased);
  rig.Register("a", 2);
  rig.Commit();
  EXPECT_EQ(rig.StateOf(1), GroupState::kPending);
  EXPECT_EQ(rig.Submit(lease), SubmitOutcome::kStaleFence);
}

TEST(SchedulerLease, OnPolicyLeasesWaitForTheVersionThatTheirStepStartsFrom) {
  SchedulerOptions options = SmallRun();
  options.max_age = 0;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto leases = rig.LeaseAll();
  EXPECT_THAT(leases, SizeIs(2));
  for (const auto& [id, lease] : leases) rig.Submit(lease);
  ASSERT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  ASSERT_TRUE(rig.Train(1).ok());
  EXPECT_THAT(rig.LeaseAll(), IsEmpty());
  rig.Announce(1);
  const auto next = rig.LeaseAll();
  ASSERT_THAT(next, SizeIs(2));
  EXPECT_EQ(next.at(3).min_version, (PolicyVersion{1, 1, Sha256Of("1")}));
}

TEST(SchedulerLease, ALeaseDemandsNoNewerVersionThanItsAgeAllows) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto leases = rig.LeaseAll();  // 1, 2 for step 1 and 3, 4 for step 2: version 0 will do
  ASSERT_THAT(leases, SizeIs(4));
  EXPECT_EQ(leases.at(4).min_version.step, 0);
  for (const auto& [id, lease] : leases) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(1).ok());
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  EXPECT_EQ(rig.LeaseAll().at(5).min_version.step, 1);  // step 3 starts from version 2, age 1
}

TEST(SchedulerLease, DeterministicLeasesNameTheExactVersion) {
  SchedulerOptions options = SmallRun();
  options.max_age = 0;
  options.deterministic = true;
  SchedulerRig rig = SchedulerRig::Started(options);
  const GrantedLease lease = rig.LeaseAll().at(1);
  EXPECT_TRUE(lease.exact_version);
  EXPECT_EQ(lease.min_version.step, 0);
}

TEST(SchedulerLease, LeasesOutliveACoordinatorRestartWithAFreshTimeToLive) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const GrantedLease lease = rig.Exchange(1).leases[0];
  rig.now_ms = 5000;
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.NextExpiryMs(), 5100);
  rig.Register("a", 1);
  EXPECT_EQ(rig.Submit(lease), SubmitOutcome::kAccepted);
}

TEST(SchedulerLease, WorkersThatHaveTheNewestVersionRelayItToTheNextOnesOfTheRing) {
  SchedulerRig rig = SchedulerRig::Started();
  const std::vector<std::string> ids = {"b", "c", "d", "e", "f", "g"};
  for (const std::string& id : ids) rig.Register(id, 1, {"", id + ":1"});
  EXPECT_THAT(rig.scheduler.WeightRelays("a", rig.now_ms), IsEmpty()) << "nobody has loaded it";
  for (const std::string& id : ids) {
    WorkerExchange loaded;
    loaded.worker_id = id;
    loaded.incarnation = 1;
    loaded.loaded_version = rig.scheduler.weights()->version;
    if (id == "c") loaded.loaded_version.digest = Sha256Of("other bytes");
    rig.Exchange(loaded);
  }
  EXPECT_THAT(rig.scheduler.WeightRelays("a", rig.now_ms), ElementsAre("b:1", "d:1", "e:1", "f:1"));
  EXPECT_THAT(rig.scheduler.WeightRelays("e", rig.now_ms), ElementsAre("f:1", "g:1", "b:1", "d:1"));
  EXPECT_THAT(rig.scheduler.WeightRelays("a", rig.now_ms + 101), IsEmpty())
      << "silent for longer than a lease";
  rig.Register("b", 2, {"", "b:2"});
  EXPECT_THAT(rig.scheduler.WeightRelays("a", rig.now_ms + 101), IsEmpty())
      << "a new process has nothing loaded";
}

TEST(SchedulerLease, AnAnnouncementToManyWorkersLooksForRelaysAndNotAtEveryWorker) {
  SchedulerRig rig = SchedulerRig::Started();
  constexpr int kWorkers = 20000;
  for (int i = 0; i < kWorkers; ++i) {
    const std::string id = "w" + std::to_string(i);
    rig.Register(id, 1, {"", id + ":1"});
  }
  WorkerExchange loaded;
  loaded.worker_id = "w77";
  loaded.incarnation = 1;
  loaded.loaded_version = rig.scheduler.weights()->version;
  rig.Exchange(loaded);
  const double begin = MonotonicSeconds();
  for (int i = 0; i < kWorkers; ++i) {
    ASSERT_THAT(rig.scheduler.WeightRelays("v" + std::to_string(i), rig.now_ms),
                ElementsAre("w77:1"));
  }
  EXPECT_LT(MonotonicSeconds() - begin, 1.0)
      << "a walk over all workers for each takes many seconds";
}

}  // namespace
}  // namespace buttress
