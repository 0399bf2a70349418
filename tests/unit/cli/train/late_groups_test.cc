#include "cli/train/late_groups.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/ledger/ledger.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

// A ledger of committed steps whose groups have one completion each.
class LateGroupsTest : public ::testing::Test {
 protected:
  LateGroupsTest() {
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = changes.run->run_name = "made";
    Write(changes);
  }

  // Groups of one plan; `passed` and the length of its completion for each.
  void CommitStep(std::uint64_t step, const std::vector<std::pair<std::int64_t, int>>& groups) {
    LedgerChanges changes;
    PlanRow plan;
    plan.step = step;
    for (const auto& [passed, tokens] : groups) {
      GroupRow row;
      row.group_id = ++groups_;
      row.prompt = {"p" + std::to_string(groups_), "s", 0, groups_, 1};
      row.state = GroupState::kTrained;
      row.step = step;
      row.position = static_cast<std::uint32_t>(plan.group_ids.size());
      row.passed = passed;
      v1::GroupHead head = MakeHead(groups_, {});
      AddToHead(Outcome::kCorrect, 1, tokens, head);
      changes.groups.push_back(row);
      changes.accepted.push_back(MakeAccepted(head));
      plan.group_ids.push_back(groups_);
    }
    changes.plans = {plan};
    changes.run.emplace();
    changes.run->run_id = changes.run->run_name = "made";
    changes.run->next_group_id = groups_ + 1;
    changes.run->committed_step = step;
    Write(changes);
  }

  LateGroups Read(std::uint64_t steps) {
    const auto reader = LedgerReader::Open(folder_.path() + "/ledger.db");
    return *ReadLateGroups(**reader, steps);
  }

 private:
  void Write(const LedgerChanges& changes) {
    const Status written = ledger_->Write(changes);
    ASSERT_TRUE(written.ok()) << written.ToString();
  }

  TempDir folder_;
  std::unique_ptr<Ledger> ledger_ = *Ledger::Open(folder_.path() + "/ledger.db");
  std::uint64_t groups_ = 0;
};

TEST_F(LateGroupsTest, CountsThoseThatYoungerOnesPassed) {
  CommitStep(1, {{0, 10}, {0, 20}});
  CommitStep(2, {{2, 90}, {0, 10}, {1, 50}});
  const LateGroups late = Read(9);
  EXPECT_EQ(late.Text(),
            "late groups: younger ones had passed 2 of the 5 of the newest 2 steps; 70.0 tokens a "
            "completion, all have 36.0\n");
  EXPECT_EQ(late.Json()["late_length_mean"], 70);
  EXPECT_EQ(late.Json()["length_mean"], 36);
}

TEST_F(LateGroupsTest, LooksAtTheNewestSteps) {
  CommitStep(1, {{3, 40}});
  CommitStep(2, {{0, 20}});
  EXPECT_EQ(Read(1).Text(), "");
  EXPECT_EQ(Read(1).groups, 1);
  EXPECT_EQ(Read(2).late, 1);
}

TEST_F(LateGroupsTest, SaysNothingBeforeTheFirstStep) {
  EXPECT_EQ(Read(9).Text(), "");
  EXPECT_EQ(Read(9).steps, 0);
}

}  // namespace
}  // namespace buttress
