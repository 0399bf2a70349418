// Tests submissions: a group is accepted once, whatever is repeated, late or wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/experience/codec.h"
#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

TEST(SchedulerSubmit, AcceptingAGroupWritesStateContentHistoryAndCollapseTogether) {
  SchedulerRig rig = SchedulerRig::Started();
  const GrantedLease lease = rig.LeaseAll().at(1);
  const Submission submission = SchedulerRig::MakeSubmission(
      lease, lease.min_version, {Outcome::kCorrect, Outcome::kCorrect});
  LedgerChanges changes;
  EXPECT_EQ(rig.scheduler.Submit(submission, changes), SubmitOutcome::kAccepted);
  ASSERT_EQ(changes.groups.size(), 1);
  EXPECT_EQ(changes.groups[0].state, GroupState::kReady);
  ASSERT_EQ(changes.accepted.size(), 1);
  EXPECT_EQ(changes.accepted[0].content_sha256, submission.content_sha256);
  EXPECT_EQ(HistoryOf(*changes.accepted[0].head), (PromptHistory{0, 0}));
  EXPECT_EQ(OwnHistoryOf(*changes.accepted[0].head), (PromptHistory{2, 2}));
  EXPECT_EQ(changes.collapse.at("source").all_correct, 1);
}

TEST(SchedulerSubmit, EpisodesCountOnceAndNoMoreOfThemThanTheLeaseAsksFor) {
  SchedulerRig rig = SchedulerRig::Started();
  const GrantedLease lease = rig.LeaseAll().at(1);
  ASSERT_EQ(lease.prompt.completions, 2);
  Submission submission = SchedulerRig::MakeSubmission(
      lease, lease.min_version, {Outcome::kCorrect, Outcome::kCorrect, Outcome::kWrong});
  LedgerChanges changes;
  EXPECT_EQ(rig.scheduler.Submit(submission, changes), SubmitOutcome::kMismatch);
  for (const std::int32_t parent : {-1, 0, -1}) {
    submission.head.add_parents(parent);
    submission.head.add_turns(2);
    submission.head.add_sampled_lengths(3);
    submission.head.add_tool_calls(2);
    submission.head.add_failed_tool_calls(parent < 0 ? 1 : 0);
    submission.head.add_episode_ends(parent < 0 ? v1::EPISODE_END_DONE : v1::EPISODE_END_TURNS);
  }
  EXPECT_EQ(rig.scheduler.Submit(submission, changes), SubmitOutcome::kAccepted);
  EXPECT_EQ(OwnHistoryOf(*changes.accepted[0].head), (PromptHistory{1, 2}));
  EXPECT_EQ(changes.worker_tokens[0].accepted, 9) << "what others wrote was not sampled";
  const EpisodeEvents& episodes = rig.scheduler.events().episodes;
  EXPECT_EQ(episodes.ends[v1::EPISODE_END_DONE], 2);
  EXPECT_EQ(episodes.ends[v1::EPISODE_END_TURNS], 0);
  EXPECT_EQ(episodes.turns, 6);
  EXPECT_EQ(episodes.policy_tokens, 9);
  EXPECT_EQ(episodes.environment_tokens, 6);
  EXPECT_EQ(episodes.tool_calls, 6);
  EXPECT_EQ(episodes.failed_tool_calls, 2);
}

TEST(SchedulerSubmit, HistoryIsStoredAsItWasBeforeTheGroupsOwnUpdate) {
  SchedulerOptions options = SmallRun();
  options.history_decay = 0.5;
  SchedulerRig rig = SchedulerRig::Started(options);
  auto leases = rig.LeaseAll();
  // The same prompt drawn again and again, with restarts in between.
  for (const std::uint64_t id : {2u, 3u, 4u}) {
    rig.ledger.groups.at(id).prompt = rig.ledger.groups.at(1).prompt;
    leases.at(id).prompt.prompt_id = "p0";
  }
  rig.scheduler = rig.Restore();
  const auto submit = [&](std::uint64_t id, Outcome first, Outcome second) {
    const Submission submission =
        SchedulerRig::MakeSubmission(leases.at(id), {1, 0, ""}, {first, second});
    EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kAccepted) << id;
    Scheduler restored = rig.Restore();
    EXPECT_TRUE(restored.SameState(rig.scheduler)) << id;
    rig.scheduler = std::move(restored);
  };
  submit(1, Outcome::kCorrect, Outcome::kWrong);
  submit(2, Outcome::kUnscorable, Outcome::kWrong);
  submit(3, Outcome::kUnscorable, Outcome::kUnscorable);
  submit(4, Outcome::kCorrect, Outcome::kCorrect);
  EXPECT_EQ(HistoryOf(*rig.ledger.accepted.at(2).head), (PromptHistory{1, 2}));
  PromptHistory after = {1, 2};
  after.Add({0, 1}, 0.5);
  EXPECT_EQ(HistoryOf(*rig.ledger.accepted.at(3).head), after);
  EXPECT_EQ(HistoryOf(*rig.ledger.accepted.at(4).head), after);
  EXPECT_EQ(after.recent_correct, 0.5);
  EXPECT_EQ(after.recent_scored, 2);
}

TEST(SchedulerSubmit, TheProbabilityOfADrawIsInTheHeadOfItsGroup) {
  SchedulerRig rig = SchedulerRig::Started();
  auto leases = rig.LeaseAll();
  rig.ledger.groups.at(1).prompt.probability = 0.25;
  rig.scheduler = rig.Restore();
  for (const std::uint64_t id : {1u, 2u}) {
    EXPECT_EQ(rig.Submit(SchedulerRig::MakeSubmission(leases.at(id), {1, 0, ""},
                                                      {Outcome::kCorrect, Outcome::kWrong})),
              SubmitOutcome::kAccepted);
  }
  EXPECT_EQ(DrawProbabilityOf(*rig.ledger.accepted.at(1).head), 0.25);
  EXPECT_FALSE(rig.ledger.accepted.at(2).head->history().has_draw_probability());
}

TEST(SchedulerSubmit, RepeatedContentIsADuplicateInEveryLaterState) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto leases = rig.LeaseAll();
  for (const auto& [id, lease] : leases) rig.Submit(lease);
  EXPECT_EQ(rig.Submit(leases.at(1)), SubmitOutcome::kDuplicate);
  ASSERT_TRUE(rig.Plan(1).ok());
  EXPECT_EQ(rig.Submit(leases.at(1)), SubmitOutcome::kDuplicate);
  ASSERT_TRUE(rig.Train(1).ok());
  ASSERT_TRUE(rig.Checkpoint(1).ok());
  ASSERT_TRUE(rig.Plan(2).ok());
  ASSERT_TRUE(rig.Train(2).ok());
  ASSERT_TRUE(rig.Checkpoint(2).ok());
  ASSERT_EQ(rig.StateOf(1), GroupState::kSettled);
  EXPECT_EQ(rig.Submit(leases.at(1)), SubmitOutcome::kDuplicate);
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.Submit(leases.at(1)), SubmitOutcome::kDuplicate);
  EXPECT_EQ(rig.scheduler.GetStatus().collapse.groups, 4);
}

TEST(SchedulerSubmit, OtherContentForAnAcceptedGroupIsRefusedAndCounted) {
  SchedulerRig rig = SchedulerRig::Started();
  const GrantedLease lease = rig.LeaseAll().at(1);
  rig.Submit(lease);
  Submission other =
      SchedulerRig::MakeSubmission(lease, lease.min_version, {Outcome::kWrong, Outcome::kWrong});
  other.content_sha256 = Sha256Of("other");
  EXPECT_EQ(rig.Submit(other), SubmitOutcome::kConflict);
  EXPECT_EQ(ClassOf(*rig.ledger.accepted.at(1).head), CollapseClass::kMixed);
  EXPECT_EQ(rig.scheduler.events().submissions[static_cast<std::size_t>(SubmitOutcome::kConflict)],
            1);
}

TEST(SchedulerSubmit, AnotherWorkerCannotSubmitOnALease) {
  SchedulerRig rig = SchedulerRig::Started();
  const GrantedLease lease = rig.LeaseAll().at(1);
  Submission submission =
      SchedulerRig::MakeSubmission(lease, lease.min_version, {Outcome::kWrong, Outcome::kWrong});
  submission.worker_id = "b";
  EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kStaleFence);
  submission.worker_id = "a";
  submission.incarnation = 9;
  EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kStaleFence);
  EXPECT_EQ(rig.StateOf(1), GroupState::kLeased);
}

TEST(SchedulerSubmit, AGroupThatWasNeverDrawnIsStale) {
  SchedulerRig rig = SchedulerRig::Started();
  GrantedLease lease = rig.LeaseAll().at(1);
  lease.ref.group_id = 77;
  EXPECT_EQ(rig.Submit(lease), SubmitOutcome::kStaleFence);
}

TEST(SchedulerSubmit, AGroupThatIsNotWhatWasLeasedIsAMismatchAndChangesNothing) {
  SchedulerRig rig = SchedulerRig::Started();
  const GrantedLease lease = rig.LeaseAll().at(1);
  Submission submission =
      SchedulerRig::MakeSubmission(lease, lease.min_version, {Outcome::kWrong, Outcome::kWrong});
  submission.head.set_prompt_id("p1");
  EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kMismatch);
  EXPECT_EQ(rig.Submit(SchedulerRig::MakeSubmission(lease, lease.min_version, {})),
            SubmitOutcome::kMismatch);
  EXPECT_EQ(rig.Submit(SchedulerRig::MakeSubmission(
                lease, lease.min_version, {Outcome::kWrong, Outcome::kWrong, Outcome::kWrong})),
            SubmitOutcome::kMismatch);
  EXPECT_EQ(rig.Submit(SchedulerRig::MakeSubmission(lease, {1, 5, ""},
                                                    {Outcome::kWrong, Outcome::kWrong})),
            SubmitOutcome::kMismatch);
  EXPECT_EQ(rig.StateOf(1), GroupState::kLeased);
}

TEST(SchedulerSubmit, AGroupSampledFromTooOldAVersionIsRefusedAndSampledAgain) {
  SchedulerRig rig = SchedulerRig::Started();
  rig.RunStep(1);
  const GrantedLease lease = rig.LeaseAll().at(5);
  ASSERT_EQ(lease.min_version.step, 1);
  EXPECT_EQ(rig.Submit(SchedulerRig::MakeSubmission(lease, {1, 0, ""},
                                                    {Outcome::kWrong, Outcome::kWrong})),
            SubmitOutcome::kStalePolicy);
  EXPECT_EQ(rig.StateOf(5), GroupState::kPending);
  EXPECT_EQ(rig.ledger.groups.at(5).attempts, 0) << "the prompt did nothing";
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  EXPECT_EQ(rig.scheduler.workers().known().at("a").strikes.count, 1) << "the worker did";
}

TEST(SchedulerSubmit, AGroupPartlySampledFromAnAbandonedVersionIsSampledAgain) {
  SchedulerRig rig = SchedulerRig::Started();
  const auto leases = rig.LeaseAll();
  rig.Submit(leases.at(1));
  rig.Submit(leases.at(2));
  ASSERT_TRUE(rig.Plan(1).ok());
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  rig.StartLearner({});  // back behind step 1; group 3 was leased at version 0 and may stay
  rig.Announce(0);
  Submission submission =
      SchedulerRig::MakeSubmission(leases.at(3), {1, 0, ""}, {Outcome::kWrong, Outcome::kWrong});
  *submission.head.add_versions() = ToProto(PolicyVersion{1, 1, ""});
  EXPECT_EQ(rig.Submit(submission), SubmitOutcome::kStalePolicy);
  EXPECT_EQ(rig.StateOf(3), GroupState::kPending);
  EXPECT_EQ(rig.ledger.groups.at(3).attempts, 0) << "the prompt did nothing";
  EXPECT_EQ(rig.Submit(leases.at(4)), SubmitOutcome::kAccepted);
}

}  // namespace
}  // namespace buttress
