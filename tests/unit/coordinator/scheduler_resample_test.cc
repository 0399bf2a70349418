// Tests that groups without a signal are replaced (zero_variance: resample).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/base/text/random.h"
#include "tests/unit/coordinator/scheduler_rig.h"

namespace buttress {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two prompts a step, on-policy, at most two groups replaced for a step.
SchedulerOptions Resampling() {
  SchedulerOptions options = SmallRun();
  options.max_age = 0;
  options.resample = true;
  options.replace_cap = 2;
  return options;
}

Submission Constant(const GrantedLease& lease) {
  return SchedulerRig::MakeSubmission(lease, lease.min_version, {Outcome::kWrong, Outcome::kWrong});
}

TEST(SchedulerResample, AConstantGroupIsCountedAndGivesItsPlaceToAnotherPrompt) {
  SchedulerRig rig = SchedulerRig::Started(Resampling());
  const auto leases = rig.LeaseAll();
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(rig.Submit(Constant(leases.at(1))), SubmitOutcome::kAccepted);
  EXPECT_EQ(rig.ReasonOf(1), DropReason::kNoSignal);
  EXPECT_EQ(rig.ledger.groups.at(1).step, 1u);
  EXPECT_EQ(rig.scheduler.GetStatus().collapse.all_wrong, 1);
  rig.Submit(leases.at(2));
  EXPECT_THAT(rig.PlannedIds(1), IsEmpty());
  const auto more = rig.LeaseAll();
  ASSERT_EQ(more.size(), 1u);
  rig.Submit(more.at(3));
  const Result<PlanReply> reply = rig.Plan(1);
  ASSERT_TRUE(reply.ok() && reply->plan);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(2, 3));
  EXPECT_EQ(reply->plan->collapse.step, (CollapseCounts{.groups = 3, .all_wrong = 1, .mixed = 2}));
  EXPECT_EQ(reply->plan->drawn.completions, 6);  // those of the replaced group too
  EXPECT_EQ(reply->plan->drawn.scorable, 6);
  EXPECT_DOUBLE_EQ(reply->plan->drawn.raw_reward, 2);
  EXPECT_EQ(rig.scheduler.events().batches_filled, 0);
}

TEST(SchedulerResample, AtTheCapConstantGroupsFillThePlanAndTheNextStepHasACapOfItsOwn) {
  SchedulerRig rig = SchedulerRig::Started(Resampling());
  for (int wave = 0; wave < 2; ++wave) {
    for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(Constant(lease));
  }
  EXPECT_EQ(rig.scheduler.NeedsPrompts(), 0);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(3, 4));
  EXPECT_EQ(rig.scheduler.events().batches_filled, 1);
  ASSERT_TRUE(rig.Train(1).ok());
  rig.Announce(1);
  const auto leases = rig.LeaseAll();
  rig.Submit(Constant(leases.at(5)));
  EXPECT_EQ(rig.ReasonOf(5), DropReason::kNoSignal);
  EXPECT_EQ(rig.ledger.groups.at(5).step, 2u);
}

TEST(SchedulerResample, TheBudgetOfTheRunIsNotExceeded) {
  SchedulerOptions options = Resampling();
  options.replace_budget = 1;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto leases = rig.LeaseAll();
  rig.Submit(Constant(leases.at(1)));
  rig.Submit(Constant(leases.at(2)));
  EXPECT_EQ(rig.StateOf(1), GroupState::kDropped);
  EXPECT_EQ(rig.StateOf(2), GroupState::kReady);
}

TEST(SchedulerResample, AGroupWithTooFewScorableCompletionsIsReplacedToo) {
  SchedulerRig rig = SchedulerRig::Started(Resampling());
  const GrantedLease lease = rig.LeaseAll().at(1);
  rig.Submit(SchedulerRig::MakeSubmission(lease, lease.min_version,
                                          {Outcome::kCorrect, Outcome::kUnscorable}));
  EXPECT_EQ(rig.ReasonOf(1), DropReason::kNoSignal);
  EXPECT_EQ(rig.scheduler.GetStatus().collapse.unscorable, 1);
}

TEST(SchedulerResample, ARestartKeepsTheCapAndTheAcceptedGroups) {
  SchedulerRig rig = SchedulerRig::Started(Resampling());
  const auto leases = rig.LeaseAll();
  rig.Submit(Constant(leases.at(1)));
  rig.scheduler = rig.Restore();
  EXPECT_EQ(rig.Submit(Constant(leases.at(1))), SubmitOutcome::kDuplicate);
  rig.Submit(Constant(leases.at(2)));
  rig.scheduler = rig.Restore();
  rig.Register("a", 1);
  for (const auto& [id, lease] : rig.LeaseAll()) rig.Submit(Constant(lease));
  const Result<PlanReply> reply = rig.Plan(1);
  ASSERT_TRUE(reply.ok() && reply->plan);
  EXPECT_EQ(reply->plan->collapse.step.groups, 4);
  EXPECT_THAT(rig.PlannedIds(1), ElementsAre(3, 4));
}

// Trains one step of constant groups but for its last `mixed` ones; returns its plan.
Plan StepOf(SchedulerRig& rig, std::uint64_t step, int mixed) {
  Result<PlanReply> reply = rig.Plan(step);
  for (int wave = 0; wave < 10 && reply.ok() && !reply->plan; ++wave) {
    for (const auto& [id, lease] : rig.LeaseAll())
      rig.Submit(mixed-- > 0 ? SchedulerRig::MakeSubmission(lease, lease.min_version,
                                                            {Outcome::kCorrect, Outcome::kWrong})
                             : Constant(lease));
    reply = rig.Plan(step);
  }
  BUTTRESS_CHECK(reply.ok() && reply->plan, "the step has a plan");
  EXPECT_TRUE(rig.Train(step).ok());
  rig.Announce(step);
  return *reply->plan;
}

SchedulerOptions Controlled() {
  SchedulerOptions options = Resampling();
  options.steps = 9;
  options.replace_cap = 4;
  options.control = {.mixed = 1, .gain = std::log(2)};
  return options;
}

TEST(SchedulerControl, TheDrawFactorFollowsTheShareOfMixedGroups) {
  SchedulerRig rig = SchedulerRig::Started(Controlled());
  const Plan first = StepOf(rig, 1, 0);
  EXPECT_EQ(first.collapse.step.groups, 2) << "it starts without replacement";
  ASSERT_TRUE(first.control.has_value());
  EXPECT_EQ(*first.control, DrawControl{});
  const Plan second = StepOf(rig, 2, 0);
  EXPECT_DOUBLE_EQ(second.control->factor, 2);
  EXPECT_EQ(second.control->expected, 0);  // no group was mixed before
  EXPECT_EQ(second.collapse.step.groups, 4);
  EXPECT_GT(second.control->replaced_tokens, 0);
  const Plan third = StepOf(rig, 3, 1);  // the first of four draws is mixed
  EXPECT_DOUBLE_EQ(third.control->factor, 3) << "the cap";
  EXPECT_DOUBLE_EQ(third.control->mixed, 0.5);
  EXPECT_DOUBLE_EQ(StepOf(rig, 4, 9).control->mixed, 1);
}

TEST(SchedulerControl, ARestartGoesOnWithTheSameDrawFactor) {
  SchedulerRig rig = SchedulerRig::Started(Controlled());
  StepOf(rig, 1, 0);
  const Scheduler before = rig.scheduler;
  rig.scheduler = rig.Restore();
  EXPECT_TRUE(rig.scheduler.SameState(before));
  rig.Register("a", 1);
  EXPECT_DOUBLE_EQ(StepOf(rig, 2, 0).control->factor, 2);
}

TEST(SchedulerControl, NothingIsReplacedAfterTheTokensAreSpent) {
  SchedulerOptions options = Controlled();
  options.control.tokens = 1;
  SchedulerRig rig = SchedulerRig::Started(options);
  StepOf(rig, 1, 0);
  EXPECT_EQ(StepOf(rig, 2, 0).collapse.step.groups, 3);
  EXPECT_EQ(StepOf(rig, 3, 0).collapse.step.groups, 2);
}

TEST(SchedulerResample, AfterTheLastPlanNothingIsReplaced) {
  SchedulerOptions options = Resampling();
  options.steps = 1;
  options.window = 2;
  options.max_age = 1;
  SchedulerRig rig = SchedulerRig::Started(options);
  const auto leases = rig.LeaseAll();
  ASSERT_EQ(leases.size(), 3u);  // two of the only step, and one that may pass a slow one
  rig.Submit(leases.at(1));
  rig.Submit(leases.at(2));
  ASSERT_THAT(rig.PlannedIds(1), ElementsAre(1, 2));
  rig.Submit(Constant(leases.at(3)));
  EXPECT_EQ(rig.StateOf(3), GroupState::kReady);
}

// What one step trains and draws when groups come in in the order of `seed`.
std::pair<std::vector<std::uint64_t>, std::int64_t> StepInOrder(std::uint64_t seed) {
  SchedulerOptions options = Resampling();
  options.prompts = 5;
  options.replace_cap = 5;
  SchedulerRig rig = SchedulerRig::Started(options);
  RandomStream random({seed, 0});
  std::map<std::uint64_t, GrantedLease> held;
  while (!rig.Plan(1)->plan) {
    held.merge(rig.LeaseAll());
    auto next = held.begin();
    std::advance(next, static_cast<std::ptrdiff_t>(random.Below(held.size())));
    const bool mixed = next->first % 3 == 0;
    rig.Submit(mixed ? SchedulerRig::MakeSubmission(next->second, next->second.min_version,
                                                    {Outcome::kCorrect, Outcome::kWrong})
                     : Constant(next->second));
    held.erase(next);
  }
  std::vector<std::uint64_t> trained = rig.PlannedIds(1);
  std::erase_if(trained, [](std::uint64_t id) { return id % 3 != 0; });
  return {trained, rig.Plan(1)->plan->collapse.step.groups};
}

TEST(SchedulerResample, TheGroupsThatAStepTrainsDoNotDependOnTheOrderOfSubmissions) {
  const auto first = StepInOrder(1);
  EXPECT_THAT(first.first, ElementsAre(3, 6, 9));
  EXPECT_EQ(first.second, 10);
  for (std::uint64_t seed = 2; seed < 50; ++seed) EXPECT_EQ(StepInOrder(seed), first) << seed;
}

}  // namespace
}  // namespace buttress
