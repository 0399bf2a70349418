#include <gtest/gtest.h>

#include <filesystem>

#include "cli/keep/drop_prune.h"
#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

TEST(PruneTest, OnlySegmentsWhoseGroupsHaveAllEndedAreDeleted) {
  RunFolder run;
  const auto drop = [&](std::uint64_t id) {
    LedgerChanges changes;
    changes.groups = {RunFolder::Ready(id)};
    changes.groups[0].state = GroupState::kDropped;
    changes.groups[0].reason = DropReason::kStale;
    run.Write(changes);
  };
  drop(1);
  drop(3);  // in the newest segment, which the coordinator appends to
  EXPECT_EQ(PrunePayloads(run.path(), false)->segments, 0);
  drop(2);
  const PrunedPayloads would = *PrunePayloads(run.path(), true);
  EXPECT_TRUE(std::filesystem::exists(run.Segment(1)));
  EXPECT_EQ(would.segments, 1);
  EXPECT_EQ(would.bytes, 2 * (kPayloadHeaderBytes + 50));
  EXPECT_EQ(would.groups, 2);
  EXPECT_EQ(PrunePayloads(run.path(), false)->bytes, would.bytes);
  EXPECT_FALSE(std::filesystem::exists(run.Segment(1)));
  EXPECT_TRUE(std::filesystem::exists(run.Segment(2)));
}

}  // namespace
}  // namespace buttress
