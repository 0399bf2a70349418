#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status Order(SchedulerRig& rig, const std::string& worker, WorkerOrder order,
             const std::string& reason = "") {
  Status status = rig.scheduler.OrderWorker({worker, order, reason}, rig.changes);
  rig.Commit();
  return status;
}

TEST(SchedulerOperator, ACordonedWorkerKeepsItsLeasesAndGetsNoOthers) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Admit();
  const auto first = rig.Exchange(1).leases;
  ASSERT_EQ(first.size(), 1U);
  ASSERT_TRUE(Order(rig, "a", WorkerOrder::kCordon, "noisy").ok());
  const ExchangeReply held = rig.Exchange(10, {first[0].ref});
  EXPECT_TRUE(held.leases.empty());
  EXPECT_TRUE(held.revoked.empty());
  EXPECT_EQ(rig.Submit(first[0]), SubmitOutcome::kAccepted);
  ASSERT_TRUE(Order(rig, "a", WorkerOrder::kNone).ok());
  EXPECT_FALSE(rig.Exchange(10).leases.empty());
}

TEST(SchedulerOperator, OrdersOutliveTheCoordinatorAndTheRegistration) {
  SchedulerRig rig = SchedulerRig::Started();
  ASSERT_TRUE(Order(rig, "a", WorkerOrder::kDrain, "the machine moves").ok());
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.workers().OrderOf("a"), WorkerOrder::kDrain);
  EXPECT_EQ(rig.scheduler.workers().orders().at("a").reason, "the machine moves");
  rig.Register("a", 2);
  EXPECT_EQ(rig.scheduler.workers().OrderOf("a"), WorkerOrder::kDrain);
  ASSERT_TRUE(Order(rig, "a", WorkerOrder::kNone).ok());
  rig.scheduler = rig.Restore();
  EXPECT_TRUE(rig.scheduler.workers().orders().empty());
}

TEST(SchedulerOperator, AnUnknownWorkerIsRefusedWithTheKnownOnes) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.Register("b", 1);
  for (const WorkerOrder order : {WorkerOrder::kNone, WorkerOrder::kCordon, WorkerOrder::kDrain}) {
    const Status status = Order(rig, "c", order);
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("no worker 'c'"), HasSubstr("a, b")));
  }
  EXPECT_TRUE(Order(rig, "a", WorkerOrder::kNone).ok()) << "there is nothing to take back";
}

TEST(SchedulerOperator, AStopIsDoneWhenAllThatWasCommittedIsInACheckpoint) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(2)->plan.has_value());
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kNone);
  rig.scheduler.RequestStop();
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  ASSERT_TRUE(rig.Checkpoint(1).ok()) << "the checkpoint before step 2, of a learner that does not "
                                         "know of the stop";
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kRequested);
  ASSERT_TRUE(rig.Train(2).ok());
  const auto told = rig.Plan(3);
  EXPECT_TRUE(told->stopping);
  EXPECT_FALSE(told->plan.has_value());
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kRequested);
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kDone);
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kNone) << "the next start resumes the run";
  rig.Register("a", 1);
  rig.StartLearner({1, 2, ""});
  rig.RunStep(3);
}

TEST(SchedulerOperator, AStopNeedsNoNewCheckpointWhereTheLastOneHasEverything) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.scheduler.RequestStop();
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kRequested);
  EXPECT_TRUE(rig.Plan(1)->stopping);
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kDone);
}

void EndEarly(SchedulerRig& rig) {
  rig.scheduler.EndEarly("nothing left to learn", rig.changes);
  rig.Commit();
}

TEST(SchedulerOperator, ALearnerThatEndsTheRunStopsItUntilALearnerRegistersAgain) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  EndEarly(rig);
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kDone);
  EXPECT_EQ(rig.scheduler.end_reason(), "nothing left to learn");
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  rig.StartLearner({1, 1, ""});
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kNone);
  EXPECT_EQ(rig.scheduler.end_reason(), "");
  rig.RunStep(2);
  rig.scheduler.RequestStop();
  rig.StartLearner({2, 1, ""});
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kRequested) << "an operator's stop stands";
}

TEST(SchedulerOperator, AnEarlyEndOutlivesTheCoordinatorUntilALearnerRegisters) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  rig.Admit();
  EndEarly(rig);
  EXPECT_FALSE(rig.scheduler.ended_before_start());
  rig.scheduler = rig.Restore();
  EXPECT_TRUE(rig.scheduler.ended_before_start());
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kDone);
  EXPECT_EQ(rig.scheduler.end_reason(), "nothing left to learn");
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  rig.Register("a", 1);
  EXPECT_THAT(rig.Exchange(10).leases, testing::IsEmpty()) << "a group is pending, and stays so";
  rig.StartLearner({1, 1, ""});
  EXPECT_EQ(rig.scheduler.end_reason(), "");
  EXPECT_FALSE(rig.scheduler.ended_before_start());
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.end_reason(), "") << "the learner has taken the run up";
  EXPECT_EQ(rig.scheduler.stop_phase(), StopPhase::kNone);
  rig.Register("a", 1);
  rig.RunStep(2);
}

TEST(SchedulerOperator, OnlyWorkersThatJoinAfterAnEarlyEndWaitForALearner) {
  SchedulerOptions options = SmallRun();
  options.start_id = "first start";
  SchedulerRig rig = SchedulerRig::Started(options);
  EndEarly(rig);
  const auto waits = [&rig](const std::string& start_id) {
    rig.Register("b", 1, {}, start_id);
    return rig.scheduler.AwaitsLearner("b");
  };
  EXPECT_FALSE(waits("")) << "the coordinator that learned of the end reports it";
  rig.options.start_id = "second start";
  rig.scheduler = rig.Restore();
  EXPECT_FALSE(waits("first start"));
  EXPECT_TRUE(waits(""));
  rig.options.start_id = "third start";
  rig.scheduler = rig.Restore();
  EXPECT_FALSE(waits("first start"));
  EXPECT_TRUE(waits("second start"));
  EXPECT_FALSE(rig.scheduler.AwaitsLearner("unknown"));
  rig.StartLearner({1, 0, ""});
  EXPECT_FALSE(rig.scheduler.AwaitsLearner("b"));
  EndEarly(rig);
  EXPECT_FALSE(rig.scheduler.AwaitsLearner("b")) << "it has seen this end";
}

}  // namespace
}  // namespace buttress
