#include "cli/understand/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "lib/config/run_identity.h"
#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A run of plans over groups of four completions, without payloads.
class ReplayedRun {
 public:
  ReplayedRun() {
    folder_.StoreConfig(false);
    changes_.run.emplace();
    changes_.run->run_name = "made";
    changes_.run->config_sha256 = RunIdentityHash(*LoadRunConfig(StoredConfigPath(path()), {}));
  }

  // Adds a step with one group for each list of outcomes: 1 is correct.
  void AddStep(const std::vector<std::vector<int>>& groups) {
    PlanRow& plan = changes_.plans.emplace_back();
    plan.step = changes_.plans.size();
    for (const std::vector<int>& outcomes : groups) {
      AddGroup(plan.step, outcomes);
      plan.group_ids.insert(plan.group_ids.begin(), next_id_++);
      plan.collapse.step.Add(ClassOf(*changes_.accepted.back().head));
    }
    plan.collapse.acr_ema = plan.collapse.step.acr();
  }

  Result<std::unique_ptr<RunReplay>> Open(const std::vector<std::string>& overrides) {
    folder_.Write(std::exchange(changes_, {}));
    return RunReplay::Open(path(), overrides);
  }

  const std::string& path() const { return folder_.path(); }

  LedgerChanges& changes() { return changes_; }

 private:
  void AddGroup(std::uint64_t step, const std::vector<int>& outcomes) {
    GroupRow& group = changes_.groups.emplace_back(RunFolder::Ready(next_id_));
    group.state = GroupState::kSettled;
    group.step = step;
    std::vector<Outcome> judged;
    for (const int correct : outcomes)
      judged.push_back(correct == 1 ? Outcome::kCorrect : Outcome::kWrong);
    changes_.accepted.push_back(MakeAccepted(MakeHead(next_id_, judged, {1, step - 1, ""})));
  }

  RunFolder folder_;
  LedgerChanges changes_;
  std::uint64_t next_id_ = 11;
};

TEST(RunReplayTest, AnotherEstimatorSeesTheBatchesOfTheRunInTheirOrder) {
  ReplayedRun run;
  run.AddStep({{0, 0, 0, 0}, {1, 0, 0, 1}});
  run.AddStep({{1, 1, 1, 1}, {0, 0, 0, 0}});
  const auto replay = run.Open({"run.algorithm.advantage=ngrpo"});
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  ReplayedStep step;
  ASSERT_TRUE(*(*replay)->Next(step));
  EXPECT_EQ(step.plan.groups[0]->group_id(), 12U);
  EXPECT_EQ(step.plan.groups[1]->group_id(), 11U);
  EXPECT_EQ(step.trained.summary.groups_without_advantage, 1);
  EXPECT_EQ(step.replayed.summary.groups_without_advantage, 0);
  EXPECT_EQ(step.trained.advantages[4], 0) << "the all-wrong group is the second of the plan";
  EXPECT_LT(step.replayed.advantages[4], 0) << "NGRPO pushes an all-wrong group down";
  EXPECT_GT(step.trained.advantages[0], 0);
  ASSERT_TRUE(*(*replay)->Next(step));
  EXPECT_EQ(step.trained.summary.groups_without_advantage, 2);
  EXPECT_FALSE(*(*replay)->Next(step));
}

TEST(RunReplayTest, AGateKeepsItsThresholdFromStepToStep) {
  const std::vector<std::string> gated = {"run.algorithm.advantage=avspo",
                                          "run.algorithm.avspo.mode=opposite"};
  ReplayedRun run;
  for (int i = 0; i < 4; ++i) run.AddStep({{0, 0, 0, 0}, {1, 0, 0, 1}});
  const auto replay = run.Open(gated);
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  ReplayTotals trained, replayed;
  GateState last;
  ReplayedStep step;
  while (*(*replay)->Next(step)) {
    trained.Add(step.trained.summary);
    replayed.Add(step.replayed.summary);
    ASSERT_TRUE(std::isfinite(step.replayed.summary.gate_rate));
    if (last.threshold) {
      EXPECT_EQ(step.replayed.summary.gate_threshold, *last.threshold);
    }
    last = step.replayed.summary.next_gate;
  }
  EXPECT_EQ(trained.steps, 4);
  EXPECT_EQ(trained.acr_effective(), 0.5);
  EXPECT_EQ(trained.gated_steps, 0);
  EXPECT_EQ(replayed.gated_steps, 4);
  EXPECT_EQ(replayed.virtual_groups, replayed.open_gates) << "one constant group in each step";
  EXPECT_GT(replayed.gradient.virtual_samples, 0);
}

TEST(RunReplayTest, UnbiasedDrawsReadTheProbabilitiesThatTheRunKept) {
  ReplayedRun run;
  run.AddStep({{0, 0, 0, 0}, {1, 0, 0, 1}});
  for (AcceptedGroup& group : run.changes().accepted) {
    v1::GroupHead head = *group.head;
    head.mutable_history()->set_draw_probability(0.25);
    group.head = std::make_shared<const v1::GroupHead>(std::move(head));
  }
  const auto replay =
      run.Open({"run.data.selection.mode=greso", "run.data.selection.unbiased=true"});
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  ReplayedStep step;
  ASSERT_TRUE(*(*replay)->Next(step));
  EXPECT_EQ(step.replayed.advantages, step.trained.advantages);
  EXPECT_GT(step.trained.summary.gradient.all, 0);
  EXPECT_DOUBLE_EQ(step.replayed.summary.gradient.all, 4 * step.trained.summary.gradient.all);
}

TEST(RunReplayTest, AStepThatMissesAGroupWasNotTrained) {
  ReplayedRun run;
  run.AddStep({{1, 0, 0, 1}});
  run.AddStep({{1, 0, 1, 1}});
  ASSERT_TRUE(run.Open({}).ok());
  run.changes().drops = {{.group_id = 11, .step = 1, .position = 0, .reason = "damaged"}};
  const auto replay = run.Open({});
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  ReplayedStep step;
  ASSERT_TRUE(*(*replay)->Next(step));
  EXPECT_EQ(step.plan.step, 2U);
  EXPECT_EQ(step.trained.advantages, step.replayed.advantages);
  EXPECT_FALSE(*(*replay)->Next(step));
}

TEST(RunReplayTest, WhatAReplayCannotAnswerIsRefused) {
  ReplayedRun run;
  run.AddStep({{1, 0, 0, 1}});
  EXPECT_THAT(
      run.Open({"run.sampling.temperature=0.7"}).status().message(),
      HasSubstr("a replay changes run.algorithm.*, run.data.selection.*, run.env.credit and"));
  EXPECT_THAT(run.Open({"run.algorithm.avspo.prior.decay=0.9"}).status().message(),
              HasSubstr("the ledger keeps the moving averages of the run"));
  EXPECT_THAT(run.Open({"run.algorithm.advantage=gpro"}).status().message(), HasSubstr("grpo"));
  const std::string path = StoredConfigPath(run.path());
  const RunConfig other = *LoadRunConfig(path, {"run.seed=77"});
  ASSERT_TRUE(WriteFileAtomic(path, PrintRunConfig(other)).ok());
  EXPECT_THAT(run.Open({}).status().message(), HasSubstr("is not the configuration of the run"));
}

// Speed leaves a prompt out for one pass after a constant group. The third group is passed over and
// leaves no history, so the fifth is drawn; the sixth is passed over.
TEST(RunReplayTest, AnotherPromptSelectionJudgesTheGroupsInTheirOrder) {
  ReplayedRun run;
  run.AddStep({{0, 0, 0, 0}, {1, 0, 0, 1}});
  run.AddStep({{1, 0, 1, 1}, {1, 1, 1, 1}});
  run.AddStep({{1, 0, 0, 0}, {0, 0, 0, 0}});
  for (std::size_t i = 0; i < 6; ++i) {
    run.changes().groups[i].prompt.row = 100 + i % 2;
    run.changes().groups[i].prompt.pass = i / 2;
  }
  const auto replay = run.Open({"run.data.selection.mode=speed"});
  ASSERT_TRUE(replay.ok()) << replay.status().ToString();
  const auto selection = (*replay)->Selection();
  ASSERT_TRUE(selection.ok()) << selection.status().ToString();
  EXPECT_EQ(selection->passed_over.groups, 2);
  EXPECT_EQ(selection->passed_over.mixed, 1);
  EXPECT_EQ(selection->passed_over.all_wrong, 1);
  constexpr int kOfTheFolder = 3;
  EXPECT_EQ(selection->drawn.groups, 4 + kOfTheFolder);
  EXPECT_EQ(selection->drawn.all_correct, 1);
}

TEST(RunReplayTest, ASelectionAmongPromptsThatWereNotDrawnIsRefused) {
  ReplayedRun run;
  run.AddStep({{0, 0, 0, 0}});
  const auto replay = run.Open({"run.data.selection.mode=mopps"});
  ASSERT_EQ(replay.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(replay.status().message(), HasSubstr("mopps chooses among prompts"));
}

}  // namespace
}  // namespace buttress
