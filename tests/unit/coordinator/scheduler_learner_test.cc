// Tests the learner's side: plans, commits, versions, checkpoints and lineage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/os/clock.h"
#include "lib/experience/codec.h"
#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum GroupState;

TEST(SchedulerLearner, AStepWaitsForItsOldestGroups) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto leases = rig.LeaseAll();
  rig.Submit(leases.at(2));
  rig.Submit(leases.at(3));
  const Result<PlanReply> early = rig.Plan(1);
  ASSERT_TRUE(early.ok());
  EXPECT_FALSE(early->plan.has_value());
  EXPECT_EQ(rig.scheduler.GetStatus().groups[static_cast<std::size_t>(GroupState::kReady)], 2);
  rig.Submit(leases.at(1));
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
}

TEST(SchedulerLearner, AWindowLetsYoungerGroupsPassASlowOneButNotForEver) {
  SchedulerOptions options = SmallRun();
  options.window = 3;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto leases = rig.LeaseAll();
  for (const std::uint64_t id : {2U, 3U, 4U}) rig.Submit(leases.at(id));
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(2, 3));
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  rig.Admit();
  for (const GrantedLease& lease : rig.Exchange(100, {leases.at(1).ref}).leases) rig.Submit(lease);
  EXPECT_THAT(rig.PlannedIds(2), IsEmpty());  // 4 would be the third to pass group 1
  rig.Submit(leases.at(1));
  EXPECT_THAT(rig.PlannedIds(2), ElementsAre(1, 4));
}

TEST(SchedulerLearner, AskingForAPlanCostsNothingWhileItsGroupsAreMissing) {
  SchedulerOptions options = SmallRun();
  options.prompts = 20000;
  options.window = 20000;
  SchedulerRig rig = SchedulerRig::Started(options);
  rig.Admit();
  const ExchangeReply reply = rig.Exchange(2 * options.prompts);
  ASSERT_EQ(reply.leases.size(), 2U * 20000U);
  // All but the first are ready, so that the plan has enough groups; the window forbids it.
  for (std::size_t i = 1; i < reply.leases.size(); ++i)
    rig.scheduler.Submit(SchedulerRig::MakeSubmission(reply.leases[i], {1, 0, ""},
                                                      {Outcome::kCorrect, Outcome::kWrong}),
                         rig.changes);
  rig.Commit();
  const double begin = MonotonicSeconds();
  for (int poll = 0; poll < 5000; ++poll)
    ASSERT_FALSE(rig.scheduler.PlanBatch(1, 1, rig.changes)->plan);
  EXPECT_LT(MonotonicSeconds() - begin, 1.0) << "a walk of the line at every poll takes minutes";
  ASSERT_TRUE(rig.changes.empty());
  rig.Submit(reply.leases[0]);
  EXPECT_EQ(rig.PlannedIds(1).size(), 20000U);
}

TEST(SchedulerLearner, ATurnCostsTheSameHoweverManyGroupsAreTrained) {
  SchedulerOptions options = SmallRun();
  options.prompts = 5000;
  options.steps = 20;
  SchedulerRig rig = SchedulerRig::Started(options);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    rig.Admit();
    for (const GrantedLease& lease : rig.Exchange(2 * options.prompts).leases) rig.Submit(lease);
    ASSERT_TRUE(rig.Plan(step)->plan.has_value());
    ASSERT_TRUE(rig.Train(step).ok());
    rig.Announce(step);
  }
  ASSERT_EQ(rig.scheduler.groups().counts()[static_cast<std::size_t>(kTrained)], 20000);
  const double begin = MonotonicSeconds();
  for (int turn = 0; turn < 5000; ++turn)
    ASSERT_EQ(rig.scheduler.GetStatus().tokens.difference(), 0);
  EXPECT_LT(MonotonicSeconds() - begin, 1.0) << "a walk of the groups at every turn takes minutes";
}

TEST(SchedulerLearner, ThePlanOfAStepIsTheSameAcrossACoordinatorRestart) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  const Result<PlanReply> before = rig.Plan(1);
  rig.scheduler = rig.Restore();
  const Result<PlanReply> after = rig.Plan(1);
  ASSERT_TRUE(before->plan && after->plan);
  EXPECT_EQ(ToProto(*after->plan).SerializeAsString(), ToProto(*before->plan).SerializeAsString());
}

TEST(SchedulerLearner, TheSnapshotHoldsTheStepTheRunAndTheAverageOverEarlierSteps) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto leases = rig.LeaseAll();
  const auto submit = [&](std::uint64_t id, std::vector<Outcome> outcomes) {
    rig.Submit(SchedulerRig::MakeSubmission(leases.at(id), {1, 0, ""}, std::move(outcomes)));
  };
  submit(1, {Outcome::kCorrect, Outcome::kCorrect});
  submit(2, {Outcome::kCorrect, Outcome::kWrong});
  submit(3, {Outcome::kWrong, Outcome::kCorrect});
  submit(4, {Outcome::kCorrect, Outcome::kWrong});
  const CollapseSnapshot first = rig.Plan(1)->plan->collapse;
  EXPECT_EQ(first.step.all_correct, 1);
  EXPECT_EQ(first.step.mixed, 1);
  EXPECT_EQ(first.cumulative.groups, 4);
  EXPECT_DOUBLE_EQ(first.acr_ema, 0.5);  // the step's own, 1 of 2
  // Of the four accepted groups one is constant: near 1/4, where a uniform spread gives 2/3.
  EXPECT_GT(first.expected_acr, 0.25);
  EXPECT_LT(first.expected_acr, 0.65);
  const CollapseSnapshot second = rig.Plan(2)->plan->collapse;
  EXPECT_DOUBLE_EQ(second.step.acr(), 0.0);
  EXPECT_DOUBLE_EQ(second.acr_ema, 0.5);  // over step 1
  ASSERT_TRUE(rig.scheduler.run().acr_ema.has_value());
  EXPECT_DOUBLE_EQ(*rig.scheduler.run().acr_ema, 0.45);  // 0.9 * 0.5 + 0.1 * 0
}

TEST(SchedulerLearner, TheSnapshotCountsTheSourcesOfTheStepAndOfTheStepsBefore) {
  SchedulerRig rig = SchedulerRig::Started();
  std::vector<DrawnPrompt> prompts;
  for (std::uint64_t row = 0; row < 4; ++row)
    prompts.push_back({"p" + std::to_string(row), row == 1 ? "math" : "code", 0, row, 2});
  const PromptCursor cursor{0, 4, 4};
  rig.scheduler.Admit(prompts, {}, {&cursor, 1}, rig.changes);
  rig.Commit();
  for (const GrantedLease& lease : rig.Exchange(100).leases) rig.Submit(lease);
  const Plan first = *rig.Plan(1)->plan;
  EXPECT_EQ(first.groups[0]->source(), "code");
  EXPECT_EQ(first.groups[1]->source(), "math");
  EXPECT_THAT(first.collapse.sources,
              ElementsAre(SourceCollapse{"code", {.groups = 1, .mixed = 1}, {}},
                          SourceCollapse{"math", {.groups = 1, .mixed = 1}, {}}));
  rig.scheduler = rig.Restore();  // the window is in the ledger
  const Plan second = *rig.Plan(2)->plan;
  EXPECT_THAT(
      second.collapse.sources,
      ElementsAre(SourceCollapse{"code", {.groups = 2, .mixed = 2}, {.groups = 1, .mixed = 1}}));
  EXPECT_EQ(second.drawn.completions, 4);
}

TEST(SchedulerLearner, CommitsComeInOrderAndMayBeRepeated) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  EXPECT_EQ(rig.Train(1).code(), StatusCode::kFailedPrecondition);  // not planned
  ASSERT_TRUE(rig.Plan(1).ok());
  ASSERT_TRUE(rig.Plan(2).ok());
  EXPECT_EQ(rig.Train(2).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(rig.Train(1).ok());
  EXPECT_TRUE(rig.Train(1).ok());
  EXPECT_EQ(rig.StateOf(1), kTrained);
  EXPECT_EQ(rig.scheduler.run().committed_step, 1);
}

TEST(SchedulerLearner, AnnouncedWeightsFreeTheSlotsOfTheirGroups) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(1).ok());
  ASSERT_TRUE(rig.Train(1).ok());
  EXPECT_EQ(rig.scheduler.GetStatus().active_slots, 4);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  rig.Announce(1);
  EXPECT_EQ(rig.scheduler.GetStatus().active_slots, 2);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 2);
  EXPECT_EQ(rig.scheduler.weights()->version.step, 1);
}

TEST(SchedulerLearner, AnOlderAnnouncementChangesNothingAndAnotherDigestIsRefused) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  EXPECT_TRUE(rig.scheduler.Announce(1, {{1, 0, Sha256Of("0")}, ""}, rig.changes).ok());
  EXPECT_EQ(rig.scheduler.weights()->version.step, 1);
  EXPECT_TRUE(rig.changes.empty());
  EXPECT_EQ(rig.scheduler.Announce(1, {{1, 1, Sha256Of("x")}, ""}, rig.changes).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.scheduler.Announce(1, {{1, 2, Sha256Of("2")}, ""}, rig.changes).code(),
            StatusCode::kFailedPrecondition);
}

TEST(SchedulerLearner, ACheckpointSettlesTheGroupsOfTheOneBeforeIt) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  EXPECT_EQ(rig.Checkpoint(2).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(rig.Checkpoint(1).ok());
  EXPECT_TRUE(rig.Checkpoint(1).ok());
  EXPECT_EQ(rig.StateOf(1), kTrained);
  rig.RunStep(2);
  EXPECT_TRUE(rig.Checkpoint(2).ok());
  EXPECT_TRUE(rig.Checkpoint(2).ok());
  EXPECT_EQ(rig.Checkpoint(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.StateOf(1), kSettled);
  EXPECT_EQ(rig.StateOf(3), kTrained);
  EXPECT_EQ(rig.scheduler.run().checkpoint_step, 2);
  EXPECT_EQ(rig.scheduler.run().settled_step, 1);
  EXPECT_EQ(rig.Plan(1).status().code(), StatusCode::kFailedPrecondition);
}

// The checkpoint of step 2 is damaged.
TEST(SchedulerLearner, ALearnerMayGoBackToTheCheckpointBeforeTheNewest) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  rig.RunStep(2);
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  const std::vector<std::uint64_t> planned = rig.ledger.plans.at(2).group_ids;
  rig.StartLearner({1, 1, ""});
  EXPECT_EQ(rig.scheduler.run().checkpoint_step, 1);
  EXPECT_EQ(rig.StateOf(planned[0]), kBatched);
  EXPECT_EQ(rig.PlannedIds(2), planned);
  rig.Announce(1);
  ASSERT_TRUE(rig.Train(2).ok());
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  EXPECT_EQ(rig.scheduler.run().settled_step, 1);
  rig.Announce(2);
  rig.RunStep(3);
  ASSERT_TRUE(rig.Checkpoint(3).ok());
  EXPECT_TRUE(rig.scheduler.finished());
  for (const auto& [id, group] : rig.ledger.groups)
    EXPECT_EQ(group.state, group.step == 0 ? kDropped : kSettled) << id;
}

TEST(SchedulerLearner, AnOldLearnerIsRefusedEverywhere) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  rig.StartLearner({});
  rig.epoch = 1;
  const Result<PlanReply> plan = rig.Plan(1);
  EXPECT_EQ(plan.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(plan.status().message(),
              HasSubstr("learner epoch 1 has ended, the present one is 2"));
  EXPECT_EQ(rig.Train(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.Checkpoint(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.scheduler.Payloads(1, 1, {}).status().code(), StatusCode::kFailedPrecondition);
}

TEST(SchedulerLearner, ALearnerFromAnOlderCheckpointTrainsTheSameBatchesAgain) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  rig.RunStep(2);
  const std::vector<std::uint64_t> first = rig.PlannedIds(1);
  ASSERT_EQ(rig.StateOf(1), kTrained);
  const std::int64_t slots = rig.scheduler.GetStatus().active_slots;
  rig.StartLearner({1, 0, ""});
  EXPECT_EQ(rig.StateOf(1), kBatched);
  EXPECT_LE(rig.scheduler.GetStatus().active_slots, slots);
  EXPECT_FALSE(rig.ledger.groups.at(1).holds_slot);
  EXPECT_EQ(rig.PlannedIds(1), first);
  EXPECT_EQ(rig.scheduler.weights(),
            nullptr);  // 1:2 is abandoned, nothing is leased until 2:0 is announced
  rig.Announce(0);
  EXPECT_TRUE(rig.Train(1).ok());
  EXPECT_TRUE(rig.Train(2).ok());
}

TEST(SchedulerLearner, GoingBackReturnsReadyAndLeasedGroupsOfAbandonedVersions) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  const CollapseCounts before = rig.scheduler.GetStatus().collapse;
  const auto leases = rig.LeaseAll();  // 5 and 6, at version 1:1
  const Submission submission =
      SchedulerRig::MakeSubmission(leases.at(5), {1, 1, ""}, {Outcome::kWrong, Outcome::kCorrect});
  rig.Submit(submission);
  ASSERT_EQ(rig.scheduler.GetStatus().collapse.groups, before.groups + 1);
  rig.StartLearner({});
  for (const std::uint64_t id : {5u, 6u}) {
    EXPECT_EQ(rig.StateOf(id), kPending);
    EXPECT_EQ(rig.ledger.groups.at(id).attempts, 0);
    EXPECT_FALSE(rig.ledger.groups.at(id).holds_slot);
  }
  EXPECT_EQ(rig.scheduler.GetStatus().collapse, before);
  EXPECT_FALSE(rig.ledger.accepted.contains(5));
  EXPECT_EQ(rig.StateOf(3), kReady);  // sampled from version 1:0, which the checkpoint holds
  EXPECT_THAT(rig.Exchange(0, {leases.at(6).ref}).revoked, ElementsAre(leases.at(6).ref));
  EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kStaleFence);
  EXPECT_TRUE(rig.Restore().SameState(rig.scheduler));
  rig.Announce(0);
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  EXPECT_EQ(rig.Submit(rig.LeaseAll().at(5)), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig.scheduler.GetStatus().collapse.groups, before.groups + 1);
}

// What a prompt has shown must not depend on whether a learner went back in between.
TEST(SchedulerLearner, TheHistoryOfAPromptIsThatOfItsGroupsThatCount) {
  SchedulerOptions options = SmallRun();
  options.history_decay = 0.5;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto sample = [&](const GrantedLease& lease, const PolicyVersion& version) {
    return rig.Submit(
        SchedulerRig::MakeSubmission(lease, version, {Outcome::kCorrect, Outcome::kCorrect}));
  };
  rig.Admit(std::vector<DrawnPrompt>(4, {"p", "source", 0, 0, 2}), {0, 4, 4});
  const auto leases = rig.Exchange(100).leases;
  ASSERT_EQ(leases.size(), 4);
  sample(leases[0], {1, 0, ""});
  sample(leases[1], {1, 0, ""});
  ASSERT_TRUE(rig.Plan(1)->plan.has_value());
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  sample(leases[2], {1, 1, ""});
  sample(leases[3], {1, 1, ""});
  const PromptHistory third = HistoryOf(*rig.ledger.accepted.at(3).head);
  const PromptHistory fourth = HistoryOf(*rig.ledger.accepted.at(4).head);
  EXPECT_EQ(fourth.scored, 6);
  rig.StartLearner({});  // groups 3 and 4 become pending
  EXPECT_TRUE(rig.Restore().SameState(rig.scheduler));
  rig.Announce(0);
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  const auto again = rig.Exchange(100).leases;
  ASSERT_EQ(again.size(), 2);
  sample(again[0], {2, 1, ""});
  sample(again[1], {2, 1, ""});
  EXPECT_EQ(HistoryOf(*rig.ledger.accepted.at(3).head), third);
  EXPECT_EQ(HistoryOf(*rig.ledger.accepted.at(4).head), fourth);
}

// Groups 1 to 4 are of one prompt. The first two train step 1; the others come in after it.
class SchedulerRecords : public testing::Test {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options = SmallRun();
    options.selection.mode = SelectionMode::kMopps;
    options.selection.mopps.decay = 0.5;
    return options;
  }

  void SetUp() override {
    rig_.Admit(std::vector<DrawnPrompt>(4, {"p", "source", 0, 0, 2}), {0, 4, 4});
    leases_ = rig_.Exchange(100).leases;
    ASSERT_EQ(leases_.size(), 4);
    Sample(leases_[0], {1, 0, ""}, Outcome::kCorrect);
    Sample(leases_[1], {1, 0, ""}, Outcome::kWrong);
    ASSERT_TRUE(rig_.Plan(1)->plan.has_value());
    ASSERT_TRUE(rig_.Train(1).ok());
    rig_.Announce(1);
  }

  void Sample(const GrantedLease& lease, const PolicyVersion& version, Outcome second) {
    EXPECT_EQ(
        rig_.Submit(SchedulerRig::MakeSubmission(lease, version, {Outcome::kCorrect, second})),
        SubmitOutcome::kAccepted);
  }

  const PromptRecord& record() const { return rig_.ledger.records.at(0); }

  SchedulerRig rig_ = SchedulerRig::Started(Options());
  std::vector<GrantedLease> leases_;
};

TEST_F(SchedulerRecords, AGroupThatIsSampledAgainCountsOnce) {
  const PromptRecord planned = record();
  EXPECT_EQ(planned.correct, 2);  // 0.5 * 2 + 1
  Sample(leases_[2], {1, 1, ""}, Outcome::kCorrect);
  Sample(leases_[3], {1, 1, ""}, Outcome::kCorrect);
  const PromptRecord before = record();
  EXPECT_EQ(before.easy_in_a_row, 2);
  rig_.StartLearner({});  // groups 3 and 4 become pending
  EXPECT_EQ(record(), planned);
  EXPECT_TRUE(rig_.Restore().SameState(rig_.scheduler));
  rig_.Announce(0);
  ASSERT_TRUE(rig_.Train(1).ok());
  rig_.Announce(1);
  const auto again = rig_.Exchange(100).leases;
  ASSERT_EQ(again.size(), 2);
  Sample(again[0], {2, 1, ""}, Outcome::kCorrect);
  Sample(again[1], {2, 1, ""}, Outcome::kCorrect);
  EXPECT_EQ(record(), before);
}

TEST_F(SchedulerRecords, ALaterGroupThatStaysCountsAsIfTheOtherHadNeverBeen) {
  const PromptRecord planned = record();
  Sample(leases_[2], {1, 1, ""}, Outcome::kCorrect);
  Sample(leases_[3], {1, 0, ""}, Outcome::kWrong);
  EXPECT_EQ(RecordOf(*rig_.ledger.accepted.at(4).head).easy_in_a_row, 1);
  rig_.StartLearner({});  // group 4 is of the version that the learner goes back to
  EXPECT_EQ(rig_.StateOf(3), kPending);
  EXPECT_EQ(rig_.StateOf(4), kReady);
  EXPECT_EQ(RecordOf(*rig_.ledger.accepted.at(4).head), planned);
  EXPECT_EQ(record().correct, planned.correct * 0.5 + 1);
  EXPECT_EQ(record().wrong, planned.wrong * 0.5 + 1);
  EXPECT_TRUE(rig_.Restore().SameState(rig_.scheduler));
}

TEST(SchedulerLearner, ACheckpointWhoseReportWasLostCountsOnceTheLearnerStartsFromIt) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  rig.RunStep(2);
  rig.StartLearner({1, 2, ""});
  EXPECT_EQ(rig.StateOf(1), kSettled);
  EXPECT_EQ(rig.StateOf(3), kTrained);
  EXPECT_EQ(rig.scheduler.run().checkpoint_step, 2);
  EXPECT_EQ(rig.scheduler.run().settled_step, 1);
}

TEST(SchedulerLearner, ACheckpointThatDoesNotFitTheLedgerIsRefused) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  rig.RunStep(2);
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  const auto refusal = [&](PolicyVersion checkpoint) {
    const Status status = rig.scheduler.RegisterLearner(checkpoint, 1, "", rig.changes).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    return status.message();
  };
  EXPECT_THAT(refusal({1, 0, ""}), HasSubstr("step 1 is settled"));
  EXPECT_THAT(refusal({1, 0, ""}), HasSubstr("put the checkpoint of step 2 or 1 back"));
  EXPECT_THAT(refusal({1, 3, ""}), HasSubstr("committed no more than step 2"));
  EXPECT_THAT(refusal({1, 3, ""}), HasSubstr("ledger.db is older than the checkpoint"));
  EXPECT_THAT(refusal({7, 1, ""}), HasSubstr("in epoch 1"));
  EXPECT_TRUE(rig.changes.empty());
}

TEST(SchedulerLearner, ACheckpointOfAnotherRunOrCopyIsRefusedWithBothNames) {
  SchedulerOptions options = SmallRun();
  options.new_run_id = "run-a";
  SchedulerRig rig = SchedulerRig::Started(options);
  rig.RunStep(1);
  const PolicyVersion reported{1, 1, std::string(32, 'c')};
  ASSERT_TRUE(rig.scheduler.Checkpointed(rig.epoch, 1, reported.digest, rig.changes).ok());
  rig.Commit();
  const auto check = [&](const PolicyVersion& checkpoint, const std::string& run_id,
                         const std::string& learner_sha256) {
    return rig.scheduler.CheckCheckpointOrigin(checkpoint, run_id, learner_sha256);
  };
  EXPECT_TRUE(check({}, "", "").ok());  // a new run
  EXPECT_TRUE(check(reported, "run-a", "").ok());
  const Status foreign = check(reported, "run-b", "");
  EXPECT_EQ(foreign.code(), StatusCode::kDataLoss);
  EXPECT_THAT(foreign.message(), HasSubstr("is of run run-b, and the coordinator's ledger is of "
                                           "run run-a"));
  EXPECT_THAT(check({1, 1, std::string(32, 'd')}, "run-a", "").message(),
              HasSubstr("has the SHA-256 " + ToHex(std::string(32, 'd')) +
                        ", and was reported with " + ToHex(reported.digest)));
  EXPECT_THAT(check({1, 2, ""}, "run-a", "another").message(),
              HasSubstr("was written by another learner"));
  rig.scheduler = rig.Restore();
  EXPECT_FALSE(check({1, 1, std::string(32, 'd')}, "run-a", "").ok());
}

TEST(SchedulerLearner, PayloadsAreGivenOnlyForThePlanThatNamesThem) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(1).ok());
  const std::vector<std::uint64_t> own = {2, 1};
  const std::vector<std::uint64_t> foreign = {3};
  EXPECT_EQ(rig.scheduler.Payloads(1, 1, own)->size(), 2);
  EXPECT_EQ(rig.scheduler.Payloads(1, 1, foreign).status().code(), StatusCode::kAborted);
}

TEST(SchedulerLearner, TheLastCommitDropsTheOtherGroupsAndTheFinalCheckpointEndsTheRun) {
  SchedulerOptions options = SmallRun();
  options.steps = 1;
  options.window = 3;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto leases = rig.LeaseAll();  // 2 + W - 1
  ASSERT_EQ(leases.size(), 4);
  rig.Submit(leases.at(2));
  rig.Submit(leases.at(3));
  ASSERT_THAT(rig.PlannedIds(1), ElementsAre(2, 3));
  ASSERT_TRUE(rig.Train(1).ok());
  EXPECT_EQ(rig.ReasonOf(1), DropReason::kRunEnded);
  EXPECT_EQ(rig.ReasonOf(4), DropReason::kRunEnded);
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  EXPECT_FALSE(rig.scheduler.finished());
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  EXPECT_TRUE(rig.scheduler.finished());
  EXPECT_TRUE(rig.Plan(2)->finished);
  EXPECT_TRUE(rig.Restore().finished());
}

TEST(SchedulerLearner, AStepThatDoesNotFollowTheLastPlannedOneIsRefused) {
  SchedulerRig rig = SchedulerRig::Started();
  EXPECT_EQ(rig.Plan(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.Plan(2).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(rig.Plan(4)->finished);
}

TEST(SchedulerLearner, SegmentsBeforeTheFirstNeededHoldOnlyEndedGroups) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) {
    Submission submission =
        SchedulerRig::MakeSubmission(lease, {1, 0, ""}, {Outcome::kWrong, Outcome::kCorrect});
    submission.payload.segment = id;
    rig.Submit(submission);
  }
  EXPECT_EQ(rig.scheduler.FirstNeededSegment(), 1);
  ASSERT_TRUE(rig.Plan(1).ok());
  ASSERT_TRUE(rig.Train(1).ok());
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  EXPECT_EQ(rig.scheduler.FirstNeededSegment(), 1);
  ASSERT_TRUE(rig.Plan(2).ok());
  ASSERT_TRUE(rig.Train(2).ok());
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  EXPECT_EQ(rig.scheduler.FirstNeededSegment(), 3);
}

TEST(SchedulerRestore, AFinishedRunGoesOnWithMoreSteps) {
  SchedulerRig rig = SchedulerRig::Started();
  for (std::uint64_t step = 1; step <= rig.options.steps; ++step) {
    rig.RunStep(step);
    ASSERT_TRUE(rig.Checkpoint(step).ok());
  }
  ASSERT_TRUE(rig.Restore().finished());
  const std::uint64_t next = ++rig.options.steps;
  rig.scheduler = rig.Restore();
  EXPECT_FALSE(rig.scheduler.finished());
  rig.StartLearner({rig.epoch, next - 1, ""});
  rig.Announce(next - 1);
  rig.Register("a", 1);
  rig.RunStep(next);
  ASSERT_TRUE(rig.Checkpoint(next).ok());
  EXPECT_TRUE(rig.scheduler.finished());
}

TEST(SchedulerRestore, ARunThatIsShortenedToItsLastStepDropsWhatIsNotTrained) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  const auto leases = rig.LeaseAll();
  ASSERT_FALSE(leases.empty());
  rig.options.steps = 1;
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  for (const auto& [id, lease] : leases) EXPECT_EQ(rig.ReasonOf(id), DropReason::kRunEnded);
}

TEST(SchedulerRestore, FewerStepsThanArePlannedAreRefused) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  rig.RunStep(2);
  rig.options.steps = 1;
  LedgerChanges changes;
  const auto restored = Scheduler::Restore(rig.options, rig.ledger.Load(), 0, changes);
  EXPECT_THAT(restored.status().message(), HasSubstr("run.steps = 1 is less than the 2 steps"));
}

TEST(SchedulerRestore, AnotherConfigurationIsRefusedWithBothHashes) {
  SchedulerRig rig = SchedulerRig::Started();
  SchedulerOptions other = SmallRun();
  other.config_sha256 = "bb";
  LedgerChanges changes;
  const Result<Scheduler> restored = Scheduler::Restore(other, rig.ledger.Load(), 0, changes);
  EXPECT_EQ(restored.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(restored.status().message(), HasSubstr("aa"));
  EXPECT_THAT(restored.status().message(), HasSubstr("bb"));
}

TEST(SchedulerRestore, ALedgerThatContradictsItselfIsDataLoss) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(1).ok());
  LedgerChanges changes;
  LedgerSnapshot torn = rig.ledger.Load();
  torn.accepted.erase(1);
  EXPECT_EQ(Scheduler::Restore(SmallRun(), torn, 0, changes).status().code(),
            StatusCode::kDataLoss);
  torn = rig.ledger.Load();
  torn.plans.clear();
  EXPECT_EQ(Scheduler::Restore(SmallRun(), torn, 0, changes).status().code(),
            StatusCode::kDataLoss);
  torn = rig.ledger.Load();
  torn.plans.at(1).group_ids.pop_back();
  EXPECT_EQ(Scheduler::Restore(SmallRun(), torn, 0, changes).status().code(),
            StatusCode::kDataLoss);
}

// Drops a group as `buttress ledger drop` does while no coordinator runs.
void DropAndRestart(SchedulerRig& rig, std::uint64_t id) {
  GroupRow group = rig.ledger.groups.at(id);
  rig.changes.drops = {{id, group.step, group.position, 0, "damaged"}};
  group.state = kDropped;
  group.reason = DropReason::kDamaged;
  group.holds_slot = false;
  rig.changes.groups = {group};
  rig.changes.run = rig.ledger.run;
  ++rig.changes.run->learner_epoch;
  rig.Commit();
  rig.scheduler = rig.Restore();
  rig.Register("a", 1);
  rig.Commit();
}

TEST(SchedulerLearner, ADroppedGroupOfAPlanIsReplacedByTheFirstThatIsReady) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  DropAndRestart(rig, 1);
  EXPECT_EQ(rig.Train(1).code(), StatusCode::kFailedPrecondition);  // the old learner is fenced
  rig.StartLearner({});
  const Plan plan = *rig.Plan(1)->plan;
  EXPECT_THAT(SchedulerRig::IdsOf(plan), ElementsAre(3, 2));
  EXPECT_EQ(plan.collapse.step.groups, 3);  // that which was dropped counts once
  ASSERT_EQ(plan.collapse.sources.size(), 1U);
  EXPECT_EQ(plan.collapse.sources[0].step, plan.collapse.step);
  EXPECT_EQ(plan.drawn.completions, 6);
  EXPECT_DOUBLE_EQ(plan.drawn.raw_reward, 3);
  EXPECT_EQ(rig.StateOf(3), kBatched);
  rig.scheduler = rig.Restore();
  EXPECT_EQ(ToProto(*rig.Plan(1)->plan).SerializeAsString(), ToProto(plan).SerializeAsString());
}

// Steps 1 to 3, which are all, are planned and trained when the learner goes back to the start.
TEST(SchedulerLearner, APlanThatLacksAGroupWaitsForAFreshPromptWhateverIsPlannedAhead) {
  SchedulerRig rig = SchedulerRig::Started();
  for (std::uint64_t step = 1; step <= 3; ++step) rig.RunStep(step);
  DropAndRestart(rig, 3);  // of step 2
  rig.StartLearner({});
  rig.Announce(0);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  EXPECT_THAT(rig.PlannedIds(2), IsEmpty());
  EXPECT_FALSE(rig.Train(2).ok());
  const auto leases = rig.LeaseAll();
  ASSERT_EQ(leases.size(), 1);
  const GrantedLease& lease = leases.begin()->second;
  EXPECT_EQ(lease.min_version.step, 0);  // no newer version exists
  rig.Submit(lease);
  EXPECT_THAT(rig.PlannedIds(2), ElementsAre(lease.ref.group_id, 4));
  for (std::uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(rig.Train(step).ok());
  ASSERT_TRUE(rig.Checkpoint(3).ok());
  EXPECT_TRUE(rig.scheduler.finished());
}

TEST(SchedulerLearner, AGroupThatTheLearnerFindsDamagedIsReplacedInItsPlan) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  EXPECT_EQ(rig.scheduler.GetStatus().active_slots, 4);
  const auto give_up = [&](std::uint64_t id) {
    const Status status =
        rig.scheduler.GiveUpDamaged(rig.epoch, 1, id, "a flipped byte", rig.changes);
    const std::size_t drops = rig.changes.drops.size();
    rig.Commit();
    EXPECT_TRUE(status.ok()) << status.ToString();
    return drops;
  };
  EXPECT_EQ(give_up(2), 1);
  EXPECT_EQ(give_up(2), 0);  // a repeated call
  EXPECT_EQ(rig.ReasonOf(2), DropReason::kDamaged);
  EXPECT_EQ(rig.scheduler.GetStatus().active_slots, 3);
  EXPECT_EQ(rig.Train(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rig.scheduler.Payloads(rig.epoch, 1, std::vector<std::uint64_t>{2}).status().code(),
            StatusCode::kAborted);
  rig.scheduler = rig.Restore();
  const Plan plan = *rig.Plan(1)->plan;
  EXPECT_THAT(SchedulerRig::IdsOf(plan), ElementsAre(1, 3));
  EXPECT_EQ(plan.collapse.step.groups, 3);
  EXPECT_EQ(give_up(3), 1);  // the one in its place is damaged as well
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 4));
  EXPECT_EQ(rig.scheduler.GetStatus().collapse.groups, 4) << "each counts once";
  ASSERT_TRUE(rig.Train(1).ok());
  EXPECT_EQ(rig.scheduler.GiveUpDamaged(rig.epoch, 1, 1, "a flipped byte", rig.changes).code(),
            StatusCode::kDataLoss)
      << "its step is trained";
}

// All slots are held by planned groups and no group is ready.
TEST(SchedulerLearner, APlanWithoutReadyGroupsWaitsForAFreshPromptInThePlaceOfADamagedOne) {
  SchedulerRig rig = SchedulerRig::Started();
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  EXPECT_THAT(rig.PlannedIds(2), ElementsAre(3, 4));
  ASSERT_TRUE(rig.scheduler.GiveUpDamaged(rig.epoch, 1, 1, "why", rig.changes).ok());
  rig.Commit();
  EXPECT_THAT(rig.PlannedIds(1), IsEmpty());
  const auto leases = rig.LeaseAll();
  ASSERT_EQ(leases.size(), 1);
  rig.Submit(leases.begin()->second);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(5, 2));
  EXPECT_THAT(rig.PlannedIds(2), ElementsAre(3, 4));
}

TEST(SchedulerLearner, ADamagedGroupStopsADeterministicRun) {
  SchedulerOptions options = SmallRun();
  options.deterministic = true;
  SchedulerRig rig = SchedulerRig::Started(options);
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);
  ASSERT_TRUE(rig.Plan(1)->plan.has_value());
  const Status status = rig.scheduler.GiveUpDamaged(rig.epoch, 1, 1, "a flipped byte", rig.changes);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("a flipped byte; run.deterministic is set"));
  EXPECT_TRUE(rig.changes.empty());
}

TEST(SchedulerLearner, ACheckpointThatContainsADroppedGroupIsRefused) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  DropAndRestart(rig, 1);
  const Status status =
      rig.scheduler.RegisterLearner({rig.epoch, 1, ""}, 1, "", rig.changes).status();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("a group of step 1 was dropped"));
}

// A learner that was replaced completes its checkpoint all the same, whatever its successor has
// committed by then.
TEST(SchedulerLearner, ACheckpointThatALaterLearnerWentBackBehindIsPassedOver) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  rig.RunStep(2);
  const PolicyVersion late = {rig.epoch, 2, ""};
  rig.StartLearner({});
  rig.Announce(0);
  for (std::uint64_t step = 0; step <= 2; ++step) {
    ASSERT_TRUE(step == 0 || rig.Train(step).ok());
    const Status status = rig.scheduler.RegisterLearner(late, 1, "", rig.changes).status();
    EXPECT_EQ(status.code(), StatusCode::kAborted);
    EXPECT_THAT(status.message(), HasSubstr("checkpoint 1:2 (epoch:step), but a later learner"));
    EXPECT_TRUE(rig.changes.empty());
  }
  rig.StartLearner({rig.epoch, 2, ""});
}

TEST(SchedulerLearner, TheBasesOfGresoBeginAtTheSettings) {
  SchedulerOptions options = SmallRun();
  options.selection.mode = SelectionMode::kGreso;
  options.selection.greso.keep_easy = 0.9;
  options.selection.greso.keep_hard = 0.2;
  const SchedulerRig rig = SchedulerRig::Started(options);
  EXPECT_EQ(rig.scheduler.greso(), (GresoBases{0.9, 0.2}));
}

}  // namespace
}  // namespace buttress
