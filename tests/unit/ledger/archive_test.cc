// Groups that have ended leave the database for archives, and every reader finds them there.
#include "lib/ledger/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/ledger/audit.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/reader.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kGroups = kEndedTags + 2004;
constexpr std::uint64_t kOfStep = 4;
constexpr std::uint64_t kKept = kGroups + 1 - kEndedTags;  // the first group that is not archived

// Every fifth group is replaced; the others are planned, kOfStep for a step.
GroupRow ArchivedRow(std::uint64_t id) {
  GroupRow row;
  row.group_id = id;
  row.prompt = {"p" + std::to_string(id), "s", 0, id - 1, 2};
  row.lease_epoch = 1;
  const std::uint64_t planned = id - id / 5 - 1;
  row.step = planned / kOfStep + 1;
  row.position = static_cast<std::uint32_t>(planned % kOfStep);
  row.state = GroupState::kSettled;
  if (id % 5 == 0) {
    row.state = GroupState::kDropped;
    row.reason = DropReason::kNoSignal;
    row.position = 0;
  }
  return row;
}

AcceptedGroup ArchivedContent(std::uint64_t id) {
  const Outcome second = id % 5 == 0 ? Outcome::kWrong : Outcome::kCorrect;
  AcceptedGroup group = MakeAccepted(MakeHead(id, {Outcome::kWrong, second}));
  group.payload = {1, 100 * id, 50, 0};
  return group;
}

class ArchiveTest : public ::testing::Test {
 protected:
  ArchiveTest() {
    LedgerChanges changes;
    RunRow& run = changes.run.emplace();
    run.run_id = "r";
    run.sources = {{.name = {}, .dataset = {kGroups, "d"}, .cursor = {0, kGroups, kGroups}}};
    run.next_group_id = kGroups + 1;
    run.learner_epoch = 1;
    std::map<std::uint64_t, PlanRow> plans;
    EndedTokens& tokens = changes.ended_tokens.emplace();
    for (std::uint64_t id = 1; id <= kGroups; ++id) {
      const GroupRow row = ArchivedRow(id);
      changes.groups.push_back(row);
      changes.accepted.push_back(ArchivedContent(id));
      const v1::GroupHead& head = *changes.accepted.back().head;
      const CollapseClass collapse = ClassOf(head);
      changes.collapse["s"].Add(collapse);
      changes.histories[id - 1] = OwnHistoryOf(head);
      PlanRow& plan = plans[row.step];
      plan.step = row.step;
      plan.collapse.step.Add(collapse);
      plan.collapse.sources.resize(1);
      plan.collapse.sources[0].source = "s";
      plan.collapse.sources[0].step.Add(collapse);
      (row.state == GroupState::kSettled ? tokens.trained : tokens.stale) += TokensOf(head);
      if (row.state == GroupState::kSettled) plan.group_ids.push_back(id);
    }
    // The last step has all its groups.
    EXPECT_EQ(plans.rbegin()->second.group_ids.size(), kOfStep);
    changes.learners = {{1, 0, "", 1, std::string(32, 's')}};
    for (auto& [step, plan] : plans) {
      changes.commits.push_back({1, step});
      changes.plans.push_back(std::move(plan));
    }
    run.planned_step = run.committed_step = plans.rbegin()->first;
    run.checkpoint_step = run.settled_step = run.planned_step;
    ledger_ = *Ledger::Open(path_);
    EXPECT_TRUE(ledger_->Write(changes).ok());
  }

  // What the readers say of the run.
  struct Answers {
    std::vector<GroupRecord> groups;
    std::vector<GroupRecord> some;
    std::map<std::uint64_t, PlanRow> plans;
    std::vector<std::uint64_t> early;
    std::vector<std::uint64_t> between;  // drawn for the step around the end of the archives
    PayloadEnd end;
    std::size_t steps = 0;
    std::vector<std::string> violations;
  };

  Answers Read() const {
    const auto reader = *LedgerReader::Open(path_);
    Answers answers;
    EXPECT_TRUE(
        reader->ForEachGroup([&](const GroupRecord& r) { answers.groups.push_back(r); }).ok());
    const std::uint64_t ids[] = {kGroups, 7, kKept, kKept - 1, 1, kGroups + 9};
    answers.some = *reader->GroupsById(ids);
    answers.plans = *reader->Plans();
    answers.early = *reader->DrawnFor(2);
    answers.between = *reader->DrawnFor(ArchivedRow(kKept).step);
    answers.end = *reader->EndOfPayloads();
    answers.steps = reader->StepsOfAccepted()->size();
    answers.violations = AuditLedger(*reader)->violations();
    return answers;
  }

  static void ExpectSame(const Answers& a, const Answers& b) {
    const auto same = [](const std::vector<GroupRecord>& x, const std::vector<GroupRecord>& y) {
      return std::ranges::equal(x, y, [](const GroupRecord& p, const GroupRecord& q) {
        return p.group == q.group && p.accepted == q.accepted;
      });
    };
    EXPECT_TRUE(same(a.groups, b.groups));
    EXPECT_TRUE(same(a.some, b.some));
    EXPECT_EQ(a.plans, b.plans);
    EXPECT_EQ(a.early, b.early);
    EXPECT_EQ(a.between, b.between);
    EXPECT_EQ(a.end, b.end);
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(a.violations, b.violations);
  }

  std::int64_t RowsIn(const std::string& table) const {
    const auto database = *Database::Open(path_, DatabaseMode::kReadOnly);
    return *database->QueryInt("SELECT COUNT(*) FROM " + table);
  }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/ledger.db";
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(ArchiveTest, ReadersAndARestartSayTheSameBeforeAndAfter) {
  const Answers before = Read();
  EXPECT_THAT(before.violations, IsEmpty());
  EXPECT_EQ(before.groups.size(), kGroups);
  const LedgerSnapshot snapshot = *ledger_->Load();
  EXPECT_EQ(*ledger_->Archive(1, 1500), 1500);
  ExpectSame(Read(), before);
  EXPECT_EQ(*ledger_->Archive(0, 1500), static_cast<std::int64_t>(kKept - 1 - 1500));
  EXPECT_EQ(*ledger_->Archive(0, 1500), 0);
  ExpectSame(Read(), before);
  EXPECT_EQ(RowsIn("groups"), static_cast<std::int64_t>(kEndedTags));
  EXPECT_EQ(RowsIn("accepted"), static_cast<std::int64_t>(kEndedTags));
  EXPECT_EQ(*ledger_->Load(), snapshot);
  ledger_.reset();
  ledger_ = *Ledger::Open(path_);
  EXPECT_EQ(*ledger_->Load(), snapshot);
  EXPECT_EQ(ledger_->payload_end(), before.end);
  EXPECT_EQ(ledger_->Archives()->size(), 2U);
}

TEST_F(ArchiveTest, NothingGoesBeforeSoManyStepsHaveEnded) {
  EXPECT_EQ(*ledger_->Archive(ArchivedRow(kKept - 1).step + 1, 100000), 0);
  EXPECT_FALSE(std::filesystem::exists(ArchiveFolder(path_)));
  EXPECT_GT(*ledger_->Archive(ArchivedRow(kKept - 1).step, 100000), 0);
}

TEST_F(ArchiveTest, AGroupUnderWayHoldsBackThoseAfterIt) {
  LedgerChanges changes;
  changes.groups = {ArchivedRow(1000)};
  changes.groups[0].state = GroupState::kBatched;
  ASSERT_TRUE(ledger_->Write(changes).ok());
  EXPECT_EQ(*ledger_->Archive(0, 100000), 999);
}

TEST_F(ArchiveTest, AnArchivedGroupIsNotAdmittedAgain) {
  ASSERT_GT(*ledger_->Archive(0, 100), 0);
  LedgerChanges changes;
  changes.groups = {ArchivedRow(100)};
  EXPECT_THAT(ledger_->Write(changes).message(), HasSubstr("the group is in an archive"));
  changes.groups = {ArchivedRow(101)};
  EXPECT_TRUE(ledger_->Write(changes).ok());
}

TEST_F(ArchiveTest, AMissingOrDamagedArchiveIsNamed) {
  ASSERT_EQ(*ledger_->Archive(0, 500), 500);
  ASSERT_EQ(*ledger_->Archive(0, 500), 500);
  const std::string second = ArchivePath(path_, 2);
  std::string bytes = *ReadFile(second);
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFileAtomic(second, bytes).ok());
  for (const char* expected : {"00000002.db is damaged", "00000002.db: No such file"}) {
    const auto reader = *LedgerReader::Open(path_);
    const std::uint64_t ids[] = {501};
    const Status status = reader->GroupsById(ids).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(expected));
    EXPECT_THAT(status.message(), HasSubstr("it has the groups 501 to 1000"));
    EXPECT_THAT(AuditLedger(*reader)->violations(), ElementsAre(HasSubstr(expected)));
    EXPECT_THAT(*reader->Groups(1, 10), SizeIs(10)) << "the other archive is whole";
    std::filesystem::remove(second);
  }
}

// Kills a process between the file and the commit, and after it: the rows are in one place.
TEST_F(ArchiveTest, AKillAtAnyPointLosesNothing) {
  const Answers before = Read();
  ledger_.reset();
  for (const char* point : {"ledger_commit", "ledger_committed"}) {
    SCOPED_TRACE(point);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("BUTTRESS_FAILPOINTS", (std::string(point) + ":crash:1").c_str(), 1);
      ArmFailpoints().IgnoreError();
      (*Ledger::Open(path_))->Archive(0, 500).status().IgnoreError();
      std::_Exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ExpectSame(Read(), before);
    ledger_ = *Ledger::Open(path_);
    EXPECT_GT(*ledger_->Archive(0, 100), 0) << "a file that no row names is written again";
    ExpectSame(Read(), before);
    ledger_.reset();
  }
}

// A backup reads for long; here it is one moment that is held while commits go on.
TEST_F(ArchiveTest, CommitsGoOnDuringABackupAndTheLogIsCutAfterIt) {
  const std::string log = path_ + "-wal";
  const auto commit = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      LedgerChanges changes;
      for (std::uint64_t id = 1; id <= kGroups; ++id) changes.groups.push_back(ArchivedRow(id));
      for (GroupRow& row : changes.groups) row.attempts = i % 2;
      ASSERT_TRUE(ledger_->Write(changes).ok());
    }
  };
  {
    const auto reader = *LedgerReader::Open(path_);
    ASSERT_TRUE(reader->Run().ok());
    commit(205);
    EXPECT_GT(std::filesystem::file_size(log), std::uint64_t{66} << 20);
    const std::string copy = folder_.path() + "/copy.db";
    ASSERT_TRUE(CopyLedger(path_, copy).ok());
    EXPECT_EQ((*LedgerReader::Open(copy))->Groups(1, 10)->size(), 10U);
  }
  commit(3);
  EXPECT_LE(std::filesystem::file_size(log), std::uint64_t{65} << 20);
}

}  // namespace
}  // namespace buttress
