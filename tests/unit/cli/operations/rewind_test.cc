#include "cli/operations/rewind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/operations/run_audit.h"
#include "lib/ledger/reader.h"
#include "tests/unit/cli/operations/run_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Three ready groups behind the checkpoint of step 5. The newer ledger knew a checkpoint of step 10
// and two groups more.
class RewindTest : public testing::Test {
 protected:
  void SetUp() override {
    run_.StoreConfig(false);
    LedgerChanges changes = Changes(1, 5);
    changes.starts = {{1, "s1"}};
    changes.learners = {{1, 0, "", 1, std::string(32, 's')}};
    changes.checkpoints = {{1, 5, AddCheckpoint(5, 1)}};
    run_.Write(changes);
  }

  LedgerChanges Changes(std::uint64_t learner_epoch, std::uint64_t step) {
    LedgerChanges changes;
    changes.run = run_.ledger().Load()->run;
    changes.run->coordinator_epoch = 1;
    changes.run->learner_epoch = learner_epoch;
    changes.run->planned_step = changes.run->committed_step = step;
    changes.run->checkpoint_step = step;
    return changes;
  }

  // Returns its digest.
  std::string AddCheckpoint(std::uint64_t step, std::uint64_t learner_epoch) const {
    const std::string state = R"({"run_id": "made", "step": )" + std::to_string(step) +
                              R"(, "learner_epoch": )" + std::to_string(learner_epoch) +
                              R"(, "files": []})";
    EXPECT_TRUE(MakeFolders(CheckpointOf(step)).ok());
    EXPECT_TRUE(WriteFileAtomic(CheckpointOf(step) + "/checkpoint.json", state).ok());
    return Sha256Of(state);
  }

  std::string CheckpointOf(std::uint64_t step) const {
    return run_.path() + "/checkpoint/step-" + std::to_string(step);
  }

  // Lets the run go on, and puts the ledger of before back.
  void LoseTheNewerLedger() {
    const std::string path = run_.path() + "/ledger.db", kept = run_.path() + "/kept.db";
    run_.Close();
    LedgerChanges end;
    end.early_end = EarlyEndRow{1, 5, 1, "nothing left to learn"};
    ASSERT_TRUE((*Ledger::Open(path))->Write(end).ok());
    fs::copy_file(path, kept);
    {
      const auto ledger = *Ledger::Open(path);
      const auto payloads =
          *PayloadStore::Open(run_.path() + "/payloads", ledger->payload_end(), 176);
      for (const std::uint64_t id : {4u, 5u})
        ASSERT_TRUE(payloads->Append({id, 1}, std::string(50, 'x'), Sha256Of("x")).ok());
      LedgerChanges changes;
      changes.run = ledger->Load()->run;
      changes.run->checkpoint_step = changes.run->committed_step = 10;
      changes.run->learner_epoch = 2;
      changes.checkpoints = {{2, 10, AddCheckpoint(10, 2)}};
      ASSERT_TRUE(ledger->Write(changes).ok());
    }
    fs::copy_file(kept, path, fs::copy_options::overwrite_existing);
  }

  // Writes `count` groups, from the id `first` on.
  static void WriteGroups(Ledger& ledger, std::uint64_t first, std::uint64_t count) {
    LedgerChanges changes;
    changes.run = ledger.Load()->run;
    changes.run->next_group_id = first + count;
    for (std::uint64_t id = first; id < first + count; ++id) {
      GroupRow row = RunFolder::Ready(id);
      row.state = GroupState::kPending;
      changes.groups.push_back(row);
    }
    ASSERT_TRUE(ledger.Write(changes).ok());
  }

  Result<Rewind> Plan() const { return Rewind::Plan({run_.path(), "", "the disk died"}); }

  RunFolder run_;
};

TEST_F(RewindTest, TheRunGoesOnFromTheNewestCheckpointThatTheLedgerKnows) {
  LoseTheNewerLedger();
  ASSERT_EQ(Ledger::Open(run_.path() + "/ledger.db").status().code(), StatusCode::kDataLoss);
  {
    Result<Rewind> rewind = Plan();
    ASSERT_TRUE(rewind.ok()) << rewind.status().ToString();
    const RewindLoss& loss = rewind->loss();
    EXPECT_THAT(loss.older, HasSubstr("it knows the checkpoint of step 5, and there was one of "));
    EXPECT_EQ(loss.checkpoint_step, 5);
    EXPECT_EQ(loss.lost_step, 10);
    EXPECT_EQ(loss.lost_groups, 2);
    EXPECT_EQ(loss.missing_payloads, 0);
    EXPECT_THAT(loss.checkpoints, ElementsAre(CheckpointOf(10)));
    EXPECT_TRUE(fs::exists(CheckpointOf(10)));  // until it is applied
    EXPECT_FALSE(fs::exists(loss.aside));
    const Status done = rewind->Apply();
    ASSERT_TRUE(done.ok()) << done.ToString();
  }
  EXPECT_FALSE(fs::exists(CheckpointOf(10)));
  EXPECT_TRUE(fs::exists(run_.path() + "/checkpoint/rewound-3-step-10/checkpoint.json"));
  const std::string aside = run_.path() + "/rewound-3/payloads/";
  EXPECT_EQ(fs::file_size(aside + "00000002.seg.from-82"), 82);
  EXPECT_EQ(fs::file_size(aside + "00000003.seg"), 82);
  std::vector<std::string> rewound;
  const RunAudit audit = *AuditRun(run_.path());
  for (const AuditFinding& finding : audit.ledger.findings)
    if (finding.kind == "rewound" && finding.accounted) rewound.push_back(finding.what);
  EXPECT_THAT(rewound, ElementsAre(HasSubstr(
                           "from the checkpoint of step 5: training up to step 10 and 2 accepted "
                           "groups of a newer ledger are lost: the disk died")));
  {
    const auto ledger = Ledger::Open(run_.path() + "/ledger.db");
    ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
    EXPECT_EQ((*ledger)->Load()->run->learner_epoch, 3);  // what the lost one used is fenced
    EXPECT_EQ((*ledger)->Load()->early_end, std::nullopt) << "it is to be trained on";
  }
  EXPECT_FALSE(Plan()->loss().needed());
}

// As after a coordinator was killed, and an operator has put an older copy in place.
TEST_F(RewindTest, ALogOfAnotherLedgerIsRefusedBeforeAnythingIsWritten) {
  const std::string path = run_.path() + "/ledger.db", kept = run_.path() + "/kept.db";
  run_.Close();
  fs::copy_file(path, kept);
  WriteGroups(**Ledger::Open(path), 4, 300);  // in the file, once it is closed
  {
    const auto ledger = *Ledger::Open(path);
    WriteGroups(*ledger, 304, 3);  // in the log
    fs::copy_file(path + "-wal", run_.path() + "/log");
    fs::copy_file(path, run_.path() + "/newest.db");
  }
  const auto place = [&](const std::string& ledger) {
    fs::copy_file(ledger, path, fs::copy_options::overwrite_existing);
    fs::copy_file(run_.path() + "/log", path + "-wal", fs::copy_options::overwrite_existing);
    fs::remove(path + "-shm");
  };
  place(kept);
  const Status refused = Plan().status();
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss);
  EXPECT_THAT(refused.message(), testing::AllOf(HasSubstr("are not of one moment"),
                                                HasSubstr("-wal and " + path + "-shm away")));
  EXPECT_EQ(*ReadFile(path), *ReadFile(kept)) << "the copy is as it was";
  fs::remove(path + "-wal");
  fs::remove(path + "-shm");
  EXPECT_TRUE(Plan().ok());
  place(run_.path() + "/newest.db");
  EXPECT_TRUE(Plan().ok()) << "the log of the ledger itself";
  EXPECT_EQ((*LedgerReader::Open(path))->Run()->value().next_group_id, 307);
}

TEST_F(RewindTest, ACheckpointOfALineageThatTheLedgerDoesNotKnowIsMovedAsWell) {
  AddCheckpoint(5, 2);  // a later learner has trained the step again
  AddCheckpoint(3, 1);
  run_.Close();
  const Result<Rewind> rewind = Plan();
  ASSERT_TRUE(rewind.ok()) << rewind.status().ToString();
  EXPECT_EQ(rewind->loss().older, "");
  EXPECT_EQ(rewind->loss().checkpoint_step, 3);
  EXPECT_THAT(rewind->loss().checkpoints, ElementsAre(CheckpointOf(5)));
}

TEST_F(RewindTest, ADamagedCheckpointThatTheLedgerKnowsIsNoReasonToRewind) {
  fs::remove(CheckpointOf(5) + "/checkpoint.json");
  AddCheckpoint(3, 1);
  run_.Close();
  EXPECT_FALSE(Plan()->loss().needed());
}

TEST_F(RewindTest, WithoutACheckpointThatTheLedgerKnowsItIsRefused) {
  LedgerChanges changes = Changes(1, 5);
  changes.run->settled_step = 5;
  run_.Write(changes);
  LoseTheNewerLedger();
  fs::remove_all(CheckpointOf(5));
  const Status refused = Plan().status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("no whole checkpoint that the ledger knows, of steps 5 "
                                           "to 5"));
}

TEST_F(RewindTest, GroupsWhosePayloadsAreDeletedAreCountedAndStopADeterministicRun) {
  LoseTheNewerLedger();
  fs::remove(run_.Segment(1));
  EXPECT_EQ(Plan()->loss().missing_payloads, 2);
  run_.StoreConfig(true);
  EXPECT_THAT(Plan().status().message(), HasSubstr("the payloads of 2 groups"));
  fs::remove(run_.Segment(2));
  EXPECT_THAT(Plan().status().message(), HasSubstr("no segment left that the ledger names"));
}

TEST_F(RewindTest, ARunThatGoesOnIsLeftAlone) {
  EXPECT_THAT(Plan().status().message(), HasSubstr("is open in another coordinator"));
  run_.Close();
  fs::remove_all(run_.path() + "/checkpoint");
  EXPECT_THAT(Plan().status().message(), HasSubstr("name their folder with --learner"));
}

}  // namespace
}  // namespace buttress
