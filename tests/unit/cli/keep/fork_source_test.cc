#include "cli/keep/fork_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A run whose second learner has started from step 10, and reported step 15.
class ForkSourceTest : public testing::Test {
 protected:
  ForkSourceTest() {
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = "made";
    changes.checkpoints = {{1, 10, Add(1, 10)}, {2, 15, Add(2, 15)}};
    changes.learners = {{1, 0, "", 1}, {2, 10, Sha256Of("elsewhere"), 1}};
    EXPECT_TRUE((*Ledger::Open(ledger()))->Write(changes).ok());
  }

  std::string ledger() const { return JoinPath(run(), "ledger.db"); }

  std::string run() const { return folder_.path(); }

  std::string Of(std::int64_t step) const {
    return CheckpointFolderOf(JoinPath(run(), "checkpoint"), step);
  }

  // Returns the digest of the checkpoint.
  std::string Add(int epoch, int step) const {
    const std::string text = "{\"run_id\": \"made\", \"learner_epoch\": " + std::to_string(epoch) +
                             ", \"step\": " + std::to_string(step) + "}";
    EXPECT_TRUE(MakeFolders(Of(step)).ok());
    EXPECT_TRUE(WriteFileAtomic(JoinPath(Of(step), kCheckpointStateName), text).ok());
    return Sha256Of(text);
  }

 private:
  TempDir folder_;
};

TEST_F(ForkSourceTest, TheNewestCheckpointThatTheLedgerKnowsIsTaken) {
  const auto known = FindForkSource(run());
  ASSERT_TRUE(known.ok()) << known.status().ToString();
  EXPECT_EQ(known->step, 15);
  EXPECT_EQ(known->run_id, "made");
  EXPECT_EQ(known->note, "");

  Add(1, 17);  // late, of the first learner
  Add(2, 20);  // not reported
  const auto chosen = FindForkSource(run());
  ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
  EXPECT_EQ(chosen->step, 15);
  EXPECT_THAT(chosen->note, AllOf(HasSubstr("passed over: the checkpoint of step 20, because its "
                                            "learner has not reported it"),
                                  HasSubstr("the checkpoint of step 17, because it was written by "
                                            "a learner that had been replaced")));
}

TEST_F(ForkSourceTest, ACheckpointThatTheRunWentBackBehindIsPassedOver) {
  LedgerChanges back;
  back.learners = {{3, 10, "", 1}};
  ASSERT_TRUE((*Ledger::Open(ledger()))->Write(back).ok());
  EXPECT_EQ(FindForkSource(run())->step, 10);
}

TEST_F(ForkSourceTest, AStepThatIsNamedIsTakenAndSaidToBeUnknown) {
  Add(1, 17);
  const auto chosen = FindForkSource(run() + "@17");
  ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
  EXPECT_EQ(chosen->step, 17);
  EXPECT_THAT(chosen->note, HasSubstr("a learner that had been replaced"));
  EXPECT_EQ(FindForkSource(run() + "@10")->note, "");
  EXPECT_EQ(FindForkSource(run() + "@11")->run_id, "made");  // gone since the new run began
}

TEST_F(ForkSourceTest, WithoutALedgerTheNewestIsTakenAndWithAnotherNone) {
  Add(1, 17);
  std::filesystem::remove_all(Of(10));
  std::filesystem::remove_all(Of(15));
  EXPECT_THAT(FindForkSource(run()).status().message(),
              AllOf(HasSubstr("knows none of the checkpoints there"), HasSubstr("@17")));
  std::filesystem::remove(ledger());
  const auto newest = FindForkSource(run());
  ASSERT_TRUE(newest.ok()) << newest.status().ToString();
  EXPECT_EQ(newest->step, 17);
  EXPECT_THAT(newest->note, HasSubstr("no ledger says whether its run knows it"));
  std::filesystem::remove_all(Of(17));
  EXPECT_THAT(FindForkSource(run()).status().message(), HasSubstr("has no checkpoint"));
}

}  // namespace
}  // namespace buttress
