// Unfinished groups that another lease continues, and the age that an operator orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PartialCompletion Tokens(std::int32_t completion, std::int32_t first, std::int32_t end,
                         std::uint64_t step = 0) {
  PartialCompletion partial;
  partial.completion = completion;
  partial.first_token = first;
  for (std::int32_t t = first; t < end; ++t) {
    partial.token_ids.push_back(100 * completion + t);
    partial.logprobs.push_back(-1);
  }
  partial.segments = {{first, {1, step, ""}}};
  return partial;
}

class SchedulerPartialsTest : public ::testing::Test {
 protected:
  void Start(OldTokens old_tokens) {
    SchedulerOptions options = SmallRun();
    options.old_tokens = old_tokens;
    rig_ = std::make_unique<SchedulerRig>(SchedulerRig::Started(options));
    rig_->Register("b", 1);
    rig_->Commit();
  }

  // Worker `a` reports tokens of `lease`.
  void Report(const LeaseRef& lease, std::vector<PartialCompletion> partials) {
    WorkerExchange request;
    request.worker_id = "a";
    request.incarnation = 1;
    request.held = {lease};
    for (PartialCompletion& partial : partials)
      request.partials.emplace_back(lease, std::move(partial));
    rig_->Exchange(request);
  }

  // Worker `a` returns the lease, and `b` gets the group.
  GrantedLease Move(const LeaseRef& lease) {
    WorkerExchange request;
    request.worker_id = "a";
    request.incarnation = 1;
    request.returned = {{lease, ReturnReason::kDraining}};
    rig_->Exchange(request);
    request = {};
    request.worker_id = "b";
    request.incarnation = 1;
    request.capacity = 1;
    const std::vector<GrantedLease> leases = rig_->Exchange(request).leases;
    BUTTRESS_CHECK(leases.size() == 1, "the group is leased again");
    EXPECT_EQ(leases[0].ref.group_id, lease.group_id);
    return leases[0];
  }

  std::unique_ptr<SchedulerRig> rig_;
};

TEST_F(SchedulerPartialsTest, TheNextLeaseContinuesWhatTheOneBeforeReported) {
  Start(OldTokens::kDrop);
  rig_->Admit();
  const LeaseRef lease = rig_->Exchange(1).leases[0].ref;
  Report(lease, {Tokens(0, 0, 3), Tokens(1, 0, 2)});
  Report(lease, {Tokens(0, 3, 5)});
  Report(lease, {Tokens(0, 3, 5)});  // the answer was lost
  Report(lease, {Tokens(1, 4, 6)});  // behind a gap
  EXPECT_EQ(rig_->scheduler.GetStatus().kept_tokens, 7);
  const GrantedLease next = Move(lease);
  EXPECT_THAT(next.partials, ElementsAre(Tokens(0, 0, 5), Tokens(1, 0, 2)));
  EXPECT_EQ(rig_->scheduler.events().tokens_continued, 7);
  Report(lease, {Tokens(0, 5, 9)});  // its lease has ended
  EXPECT_EQ(rig_->scheduler.GetStatus().kept_tokens, 7);
  Submission done =
      SchedulerRig::MakeSubmission(next, next.min_version, {Outcome::kCorrect, Outcome::kWrong});
  done.worker_id = "b";
  EXPECT_EQ(rig_->Submit(done), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig_->scheduler.GetStatus().kept_tokens, 0);
}

TEST_F(SchedulerPartialsTest, ReportsOfUnknownCompletionsAndVersionsAreIgnored) {
  Start(OldTokens::kDrop);
  rig_->Admit();
  const LeaseRef lease = rig_->Exchange(1).leases[0].ref;
  Report(lease, {Tokens(2, 0, 3), Tokens(0, 0, 3, /*step=*/1)});
  Report({lease.group_id, lease.lease_epoch + 1}, {Tokens(0, 0, 3)});
  EXPECT_EQ(rig_->scheduler.GetStatus().kept_tokens, 0);
}

TEST(PartialsTest, AGroupIsKeptWithinTheSizeOfALease) {
  Partials partials;
  constexpr auto kHalf = static_cast<std::int32_t>(Partials::kMostOfAGroup / 2);
  partials.Add({1, 1}, Tokens(0, 0, kHalf));
  partials.Add({1, 1}, Tokens(1, 0, kHalf));
  partials.Add({1, 1}, Tokens(1, kHalf, kHalf + 1));
  EXPECT_EQ(partials.tokens(), Partials::kMostOfAGroup);
  partials.Add({2, 1}, Tokens(0, 0, 10));
  EXPECT_EQ(partials.tokens(), Partials::kMostOfAGroup + 10);
  partials.Forget(1);
  EXPECT_EQ(partials.tokens(), 10);
}

TEST_F(SchedulerPartialsTest, ARestartForgetsThem) {
  Start(OldTokens::kDrop);
  rig_->Admit();
  const LeaseRef lease = rig_->Exchange(1).leases[0].ref;
  Report(lease, {Tokens(0, 0, 3)});
  rig_->scheduler = rig_->Restore();
  rig_->Register("a", 1);
  rig_->Register("b", 1);
  rig_->Commit();
  Report(lease, {Tokens(0, 3, 5)});
  EXPECT_THAT(Move(lease).partials, IsEmpty());
}

// Group 5 is begun at version 1 for step 3, and its lease ends after step 3 was to begin: it is of
// a later step now, which demands newer tokens.
class OldTokensTest : public SchedulerPartialsTest,
                      public ::testing::WithParamInterface<OldTokens> {};

TEST_P(OldTokensTest, DecideWhatATooOldBeginIsWorth) {
  const OldTokens mode = GetParam();
  SchedulerOptions options = SmallRun();
  options.old_tokens = mode;
  options.steps = 10;
  options.window = 9;
  rig_ = std::make_unique<SchedulerRig>(SchedulerRig::Started(options));
  rig_->Register("b", 1);
  rig_->Commit();
  const auto first = rig_->LeaseAll();
  const LeaseRef slow = first.at(1).ref;
  Report(slow, {Tokens(0, 0, 3), Tokens(1, 0, 2)});
  PartialCompletion ended = Tokens(1, 2, 4);
  ended.finish_reason = FinishReason::kStop;
  Report(slow, {ended});
  std::vector<LeaseRef> held = {slow};
  std::map<std::uint64_t, GrantedLease> leases = first;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (const auto& [id, lease] : leases) {
      if (id == 1) continue;
      ASSERT_EQ(rig_->Submit(lease), SubmitOutcome::kAccepted);
    }
    ASSERT_TRUE(rig_->Plan(step)->plan.has_value());
    ASSERT_TRUE(rig_->Train(step).ok());
    rig_->Announce(step);
    rig_->Admit();
    leases.clear();
    for (const GrantedLease& lease : rig_->Exchange(100, held).leases)
      leases[lease.ref.group_id] = lease;
  }
  const GrantedLease next = Move(slow);
  ASSERT_EQ(next.min_version.step, 2) << "it is in step 4, which starts from version 3";
  Submission late =
      SchedulerRig::MakeSubmission(next, {1, 0, ""}, {Outcome::kCorrect, Outcome::kWrong});
  late.worker_id = "b";
  if (mode == OldTokens::kDrop) {
    EXPECT_THAT(next.partials, IsEmpty());
    EXPECT_EQ(rig_->Submit(late), SubmitOutcome::kStalePolicy);
    return;
  }
  if (mode == OldTokens::kMask) {
    EXPECT_EQ(rig_->scheduler.Check(late), SubmitOutcome::kStalePolicy) << "all of it is masked";
    late.head.add_versions()->set_learner_epoch(1);
    late.head.mutable_versions(1)->set_step(2);
  }
  // Where old tokens are masked, nothing of a completion that has ended could be trained.
  EXPECT_THAT(next.partials, SizeIs(mode == OldTokens::kMask ? 1 : 2));
  EXPECT_EQ(next.partials[0], Tokens(0, 0, 3));
  EXPECT_EQ(rig_->Submit(late), SubmitOutcome::kAccepted);
  const auto planned = rig_->PlannedIds(4);
  EXPECT_THAT(planned, ::testing::Contains(1)) << "it is not dropped for its age";
}

INSTANTIATE_TEST_SUITE_P(Modes, OldTokensTest,
                         ::testing::Values(OldTokens::kDrop, OldTokens::kMask, OldTokens::kTrain));

TEST(SchedulerMaxAge, AnOrderChangesWhatIsLeasedAndOutlivesARestart) {
  SchedulerRig rig = SchedulerRig::Started();
  EXPECT_THAT(rig.LeaseAll(), SizeIs(4)) << "P (S + 1)";
  ASSERT_TRUE(rig.scheduler.OrderMaxAge(3, rig.changes).ok());
  rig.Commit();
  rig.scheduler = rig.Restore();
  rig.Register("a", 1);
  rig.Commit();
  EXPECT_EQ(rig.scheduler.max_age(), 3);
  EXPECT_EQ(rig.scheduler.GetStatus().slot_budget, 8);
  ASSERT_TRUE(rig.scheduler.OrderMaxAge(std::nullopt, rig.changes).ok());
  rig.Commit();
  EXPECT_EQ(rig.scheduler.max_age(), 1);
}

TEST(SchedulerMaxAge, ASmallerOneDropsWhatIsTooOldForTheNextPlan) {
  SchedulerOptions options = SmallRun();
  options.steps = 10;
  options.max_age = 2;
  SchedulerRig rig = SchedulerRig::Started(options);
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(lease);  // 1 to 6, of version 0
  ASSERT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  ASSERT_TRUE(rig.scheduler.OrderMaxAge(0, rig.changes).ok());
  rig.Commit();
  EXPECT_THAT(rig.PlannedIds(2), IsEmpty());
  for (const std::uint64_t id : {3, 4, 5, 6}) EXPECT_EQ(rig.ReasonOf(id), DropReason::kStale);
  const auto leases = rig.LeaseAll();
  ASSERT_THAT(leases, SizeIs(2));
  for (const auto& [id, lease] : leases) {
    EXPECT_EQ(lease.min_version.step, 1);
    rig.Submit(lease);
  }
  EXPECT_THAT(rig.PlannedIds(2), SizeIs(2));
}

TEST(SchedulerMaxAge, ADeterministicRunRefusesIt) {
  SchedulerOptions options = SmallRun();
  options.max_age = 0;
  options.deterministic = true;
  SchedulerRig rig = SchedulerRig::Started(options);
  EXPECT_EQ(rig.scheduler.OrderMaxAge(1, rig.changes).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace buttress
