#include "coordinator/schedule/prompt_records.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

GroupRow OfRow(std::uint64_t row) {
  GroupRow group;
  group.prompt.row = row;
  return group;
}

TEST(PromptRecords, APromptThatIsUnderWayHasARecordAfterARestart) {
  LedgerSnapshot snapshot;
  snapshot.groups = {{1, OfRow(3)}, {2, OfRow(4)}};
  snapshot.records[4].correct = 2;
  const PromptRecords records(snapshot);
  ASSERT_NE(records.Find(3), nullptr);
  EXPECT_EQ(*records.Find(3), PromptRecord());
  EXPECT_EQ(records.Find(4)->correct, 2);
  EXPECT_EQ(records.Find(5), nullptr);
}

TEST(PromptRecords, WhatADrawHasReadDoesNotReplaceWhatIsNewer) {
  PromptRecords records;
  LedgerChanges changes;
  records.Set(1, {.correct = 7}, changes);
  EXPECT_EQ(changes.records.at(1).correct, 7);
  records.Remember({{1, {.correct = 6}}, {2, {.correct = 5}}});
  EXPECT_EQ(records.Find(1)->correct, 7);
  EXPECT_EQ(records.Find(2)->correct, 5);
}

TEST(PromptRecords, ThoseOfGroupsUnderWayAndThoseThatAreNotWrittenYetStay) {
  const std::map<std::uint64_t, GroupRow> groups = {{1, OfRow(10)}};
  PromptRecords records;
  LedgerChanges written, turn;
  for (std::uint64_t row = 0; row < PromptRecords::kSpare + 2; ++row) records.Set(row, {}, written);
  records.Trim(groups, turn);
  EXPECT_EQ(records.size(), PromptRecords::kSpare + 2);
  records.Set(PromptRecords::kSpare + 2, {.wrong = 1}, turn);
  records.Trim(groups, turn);
  EXPECT_EQ(records.size(), 2u);
  EXPECT_NE(records.Find(10), nullptr);
  EXPECT_EQ(records.Find(PromptRecords::kSpare + 2)->wrong, 1);
}

}  // namespace
}  // namespace buttress
