#include "lib/ledger/plan_columns.h"

#include <gtest/gtest.h>

#include "lib/experience/check.h"

namespace buttress {
namespace {

AcceptedRow RowOf(std::uint64_t id, std::vector<CompletionRow> completions) {
  AcceptedRow row;
  row.group_id = id;
  row.prompt_tokens = 7;
  row.completions = std::move(completions);
  row.versions = {{1, 3, ""}, {1, 4, ""}};
  row.collapse = CollapseClass::kMixed;
  row.history = {2, 8};
  return row;
}

const CompletionRow kCorrect = {.outcome = Outcome::kCorrect,
                                .finish_reason = FinishReason::kStop,
                                .raw_reward = 1,
                                .reward = 0.9,
                                .trained_tokens = 4,
                                .total_tokens = 5};
const CompletionRow kUnscorable = {.outcome = Outcome::kUnscorable,
                                   .finish_reason = FinishReason::kLength,
                                   .trained_tokens = 6,
                                   .total_tokens = 6};

Plan PlanOf(const std::vector<AcceptedRow>& rows) {
  std::vector<const AcceptedRow*> groups;
  for (const AcceptedRow& row : rows) groups.push_back(&row);
  return MakePlan({5, {}, {}, {}}, groups);
}

TEST(MakePlanTest, FillsTheColumnsInTheOrderOfGroupsAndCompletions) {
  const Plan plan = PlanOf({RowOf(19, {kCorrect, kUnscorable}), RowOf(17, {kCorrect})});
  ASSERT_TRUE(CheckPlan(plan).ok()) << CheckPlan(plan).message();
  EXPECT_EQ(plan.step, 5U);
  EXPECT_EQ(plan.group_ids, (std::vector<std::uint64_t>{19, 17}));
  EXPECT_EQ(plan.group_offsets, (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(plan.prompt_lengths, (std::vector<std::int32_t>{7, 7}));
  EXPECT_EQ(plan.oldest_versions[0], (PolicyVersion{1, 3, ""}));
  EXPECT_EQ(plan.history[0], (PromptHistory{2, 8}));
  EXPECT_EQ(plan.classes[0], CollapseClass::kMixed);
  EXPECT_EQ(plan.rewards, (std::vector<double>{0.9, 0, 0.9}));
  EXPECT_EQ(plan.raw_rewards, (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(plan.lengths, (std::vector<std::int32_t>{4, 0, 4}));
  EXPECT_EQ(plan.total_lengths, (std::vector<std::int32_t>{5, 6, 5}));
  EXPECT_EQ(plan.truncated, (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(plan.components.empty());
}

TEST(MakePlanTest, FillsZerosForAGroupWithoutComponents) {
  AcceptedRow scored = RowOf(1, {kCorrect});
  scored.component_names = {"exact", "length"};
  scored.components = {1, -0.1};
  const Plan plan = PlanOf({RowOf(2, {kUnscorable, kUnscorable}), scored});
  EXPECT_EQ(plan.components, (std::vector<double>{0, 0, 0, 0, 1, -0.1}));
}

TEST(MakePlanTest, HasNoComponentsIfTheGroupsHaveDifferentNumbers) {
  AcceptedRow one = RowOf(1, {kCorrect});
  one.component_names = {"exact"};
  one.components = {1};
  AcceptedRow two = RowOf(2, {kCorrect});
  two.component_names = {"exact", "length"};
  two.components = {1, -0.1};
  EXPECT_TRUE(PlanOf({one, two}).components.empty());
}

}  // namespace
}  // namespace buttress
