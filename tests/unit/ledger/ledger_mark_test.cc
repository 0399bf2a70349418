#include "lib/ledger/ledger_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/base/file.h"
#include "lib/ledger/ledger.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LedgerMarkTest : public ::testing::Test {
 protected:
  // What a start of the coordinator writes, and a checkpoint of `step` if it is not 0.
  void Go(const std::string& path, std::uint64_t epoch, const std::string& start_id,
          std::uint64_t step, const std::string& run_id = "run-a") {
    const auto ledger = Ledger::Open(path);
    ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = run_id;
    changes.run->coordinator_epoch = epoch;
    changes.starts = {{epoch, start_id}};
    ASSERT_TRUE((*ledger)->Write(changes).ok());
    if (step == 0) return;
    changes.starts.clear();
    changes.run->checkpoint_step = step;
    changes.checkpoints = {{1, step, std::string(32, 'd')}};
    ASSERT_TRUE((*ledger)->Write(changes).ok());
  }

  // Overwrites `to` in place, as `cp` does.
  static void Overwrite(const std::string& from, const std::string& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/ledger.db";
  const std::string kept_ = folder_.path() + "/kept.db";
};

TEST_F(LedgerMarkTest, ALedgerThatWentOnIsOpenedAgain) {
  Go(path_, 1, "s1", 0);
  Go(path_, 2, "s2", 5);
  Go(path_, 3, "s3", 0);
  const std::string moved = folder_.path() + "/moved";
  fs::create_directory(moved);
  for (const char* name : {"ledger.db", "ledger.db.mark"})
    fs::rename(folder_.path() + "/" + name, moved + "/" + name);
  Go(moved + "/ledger.db", 4, "s4", 7);
}

TEST_F(LedgerMarkTest, AnOlderCopyPutBackIsRefused) {
  Go(path_, 1, "s1", 5);
  fs::copy_file(path_, kept_);
  Go(path_, 2, "s2", 0);
  Overwrite(kept_, path_);
  const Status started = Ledger::Open(path_).status();
  EXPECT_EQ(started.code(), StatusCode::kDataLoss);
  EXPECT_THAT(started.message(),
              AllOf(HasSubstr("not the newest ledger of run run-a: it knows 1 starts of the "
                              "coordinator, and there were 2"),
                    HasSubstr("Put the newest ledger back"), HasSubstr("buttress restore")));
}

TEST_F(LedgerMarkTest, AnOlderLedgerMayBeMadeTheNewestButNotThatOfAnotherRun) {
  Go(path_, 1, "s1", 5);
  fs::copy_file(path_, kept_);
  Go(path_, 2, "s2", 7);
  Overwrite(kept_, path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(), HasSubstr("`buttress ledger rewind`"));
  {
    const auto older = Ledger::Open(path_, LedgerAge::kOlderToo);
    ASSERT_TRUE(older.ok()) << older.status().ToString();
    ASSERT_TRUE((*older)->TakeMark().ok());
  }
  EXPECT_EQ((*ReadLedgerMark(path_))->checkpoint_step, 5);
  Go(path_, 2, "s3", 6);  // opened as any other
  fs::remove(kept_);
  Go(kept_, 1, "s1", 0, "run-b");
  Overwrite(kept_, path_);
  const Status other = Ledger::Open(path_, LedgerAge::kOlderToo).status();
  EXPECT_EQ(other.code(), StatusCode::kDataLoss);
  EXPECT_THAT(other.message(), testing::Not(HasSubstr("rewind")));
}

TEST_F(LedgerMarkTest, ALedgerWithoutTheNewestCheckpointIsRefused) {
  {
    const auto ledger = *Ledger::Open(path_);
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = "run-a";
    changes.starts = {{1, "s1"}};
    ASSERT_TRUE(ledger->Write(changes).ok());
  }
  fs::copy_file(path_, kept_);
  {
    const auto ledger = *Ledger::Open(path_);
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = "run-a";
    changes.run->checkpoint_step = 5;
    changes.checkpoints = {{1, 5, std::string(32, 'd')}};
    ASSERT_TRUE(ledger->Write(changes).ok());
  }
  Overwrite(kept_, path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(),
              HasSubstr("it knows the checkpoint of step 0, and there was one of step 5"));
}

// A learner whose newest checkpoints are lost or damaged starts from an older one.
TEST_F(LedgerMarkTest, ALedgerWhoseLearnerWentBackIsOpenedAndOneOfTheLearnerBeforeIsRefused) {
  Go(path_, 1, "s1", 5);
  fs::copy_file(path_, kept_);
  {
    const auto ledger = *Ledger::Open(path_);
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = "run-a";
    changes.run->learner_epoch = 1;
    changes.run->checkpoint_step = 3;
    changes.learners = {{1, 3, "", 1, ""}};
    ASSERT_TRUE(ledger->Write(changes).ok());
    EXPECT_EQ((*ReadLedgerMark(path_))->checkpoint_step, 5);
  }
  {
    const auto opened = Ledger::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_TRUE((*opened)->TakeMark().ok());
  }
  Overwrite(kept_, path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(),
              HasSubstr("it knows 0 starts of the learner, and there were 1"));
}

TEST_F(LedgerMarkTest, AMarkThatDoesNotNameTheLearnerIsRead) {
  Go(path_, 1, "s1", 5);
  std::string mark = *ReadFile(LedgerMarkPath(path_));
  mark.resize(mark.rfind(' '));
  ASSERT_TRUE(WriteFileAtomic(LedgerMarkPath(path_), mark).ok());
  Go(path_, 2, "s2", 7);
}

TEST_F(LedgerMarkTest, AnEmptyForeignOrForkedLedgerIsRefused) {
  Go(path_, 1, "s1", 0);
  fs::copy_file(path_, kept_);
  Go(path_, 2, "s2", 0);
  Go(kept_, 2, "other", 0);
  Overwrite(kept_, path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(), HasSubstr("a copy that went on elsewhere"));
  fs::remove(kept_);
  fs::remove(LedgerMarkPath(kept_));
  Go(kept_, 3, "s1", 9, "run-b");
  Overwrite(kept_, path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(),
              AllOf(HasSubstr("of run run-a"), HasSubstr("it is of run run-b")));
  fs::remove(path_);
  EXPECT_THAT(Ledger::Open(path_).status().message(), HasSubstr("it is empty"));
}

TEST_F(LedgerMarkTest, ACopyBesideTheOriginalIsRefusedUntilItsMarkIsRemoved) {
  Go(path_, 1, "s1", 5);
  const std::string copy = folder_.path() + "/copy";
  fs::create_directory(copy);
  for (const char* name : {"ledger.db", "ledger.db.mark"})
    fs::copy_file(folder_.path() + "/" + name, copy + "/" + name);
  const Status refused = Ledger::Open(copy + "/ledger.db").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("is a copy of the ledger of run run-a"),
                                       HasSubstr("remove " + copy + "/ledger.db.mark")));
  Go(path_, 2, "s2", 0);
  fs::remove(copy + "/ledger.db.mark");
  Go(copy + "/ledger.db", 2, "s3", 0);
}

TEST_F(LedgerMarkTest, ADamagedMarkIsNamed) {
  Go(path_, 1, "s1", 0);
  ASSERT_TRUE(WriteFileAtomic(LedgerMarkPath(path_), "run-a 1").ok());
  const Status refused = Ledger::Open(path_).status();
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss);
  EXPECT_THAT(refused.message(), HasSubstr("ledger.db.mark is damaged"));
}

}  // namespace
}  // namespace buttress
