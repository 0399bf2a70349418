#include "cli/understand/run_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the findings of `kind`.
std::vector<AuditFinding> FindingsOf(const RunFolder& run, const std::string& kind) {
  Result<RunAudit> audit = AuditRun(run.path());
  EXPECT_TRUE(audit.ok()) << audit.status().ToString();
  std::erase_if(audit->ledger.findings,
                [&](const AuditFinding& finding) { return finding.kind != kind; });
  return audit->ledger.findings;
}

TEST(RunAuditTest, EveryPayloadIsRead) {
  const RunFolder run;
  const RunAudit audit = *AuditRun(run.path());
  EXPECT_THAT(audit.ledger.violations(), IsEmpty());
  EXPECT_EQ(audit.payloads, 3);
  EXPECT_EQ(audit.payload_bytes, 150);
  EXPECT_EQ(audit.deleted, 0);
}

TEST(RunAuditTest, ADamagedPayloadOfAGroupThatWaitsForTrainingIsLost) {
  RunFolder run;
  run.Damage(2);
  const std::vector<AuditFinding> findings = FindingsOf(run, "payload");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].group_ids, ElementsAre(2));
  EXPECT_FALSE(findings[0].accounted);
  EXPECT_THAT(findings[0].what, HasSubstr("group 2 is ready: "));
}

TEST(RunAuditTest, ADamagedOrDeletedPayloadOfAGroupThatHasEndedIsNotLost) {
  RunFolder run;
  run.Damage(2);
  LedgerChanges changes;
  for (const std::uint64_t id : {2U, 3U}) {
    changes.groups.push_back(RunFolder::Ready(id));
    changes.groups.back().state = GroupState::kDropped;
    changes.groups.back().reason = DropReason::kStale;
  }
  changes.ended_tokens = {.stale = 10};
  run.Write(changes);
  std::filesystem::remove(run.Segment(2));
  const RunAudit audit = *AuditRun(run.path());
  EXPECT_THAT(audit.ledger.violations(), IsEmpty());
  EXPECT_EQ(audit.deleted, 1);
  const std::vector<AuditFinding> findings = FindingsOf(run, "payload");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].group_ids, ElementsAre(2));
}

TEST(RunAuditTest, ADamagedPayloadOfAGroupThatTheNewestCheckpointHoldsIsNotLost) {
  RunFolder run;
  run.Damage(2);
  LedgerChanges changes;
  changes.run = run.ledger().Load()->run;
  changes.run->committed_step = 1;
  changes.run->checkpoint_step = 1;
  changes.groups = {RunFolder::Ready(2)};
  changes.groups.back().state = GroupState::kTrained;
  changes.groups.back().step = 1;
  run.Write(changes);
  ASSERT_EQ(FindingsOf(run, "payload").size(), 1);
  EXPECT_TRUE(FindingsOf(run, "payload")[0].accounted);
  changes.run->checkpoint_step = 0;
  run.Write(changes);
  EXPECT_FALSE(FindingsOf(run, "payload")[0].accounted);
}

TEST(RunAuditTest, AMissingSegmentIsLost) {
  const RunFolder run;
  std::filesystem::remove(run.Segment(1));
  EXPECT_EQ(FindingsOf(run, "payload").size(), 2);
}

TEST(RunAuditTest, ACheckpointThatTheLedgerDoesNotKnowIsAFinding) {
  RunFolder run;
  const std::string state = R"({"run_id": "made", "step": 7, "learner_epoch": 1, "files": [)"
                            R"({"name": "a", "bytes": 1, "sha256": ")" +
                            ToHex(Sha256Of("x")) + "\"}]}";
  const std::string folder = run.path() + "/checkpoint/step-7";
  ASSERT_TRUE(MakeFolders(folder).ok());
  ASSERT_TRUE(WriteFileAtomic(folder + "/checkpoint.json", state).ok());
  ASSERT_TRUE(WriteFileAtomic(folder + "/a", "y").ok());
  EXPECT_THAT(FindingsOf(run, "checkpoint").at(0).what, HasSubstr(folder));  // damaged
  EXPECT_FALSE(AuditRun(run.path())->checkpoint.has_value());
  ASSERT_TRUE(WriteFileAtomic(folder + "/a", "x").ok());
  EXPECT_EQ(AuditRun(run.path())->checkpoint->digest, Sha256Of(state));
  const std::vector<AuditFinding> findings = FindingsOf(run, "checkpoint");
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].what, HasSubstr("is 1:7 (epoch:step); the ledger has committed 0:0"));
  EXPECT_FALSE(findings[0].accounted);
  LedgerChanges changes;
  changes.learners = {{1, 0, "", 1}, {2, 6, "", 1}};
  run.Write(changes);
  ASSERT_EQ(FindingsOf(run, "checkpoint").size(), 1);
  EXPECT_THAT(FindingsOf(run, "checkpoint")[0].what,
              HasSubstr("1:7 (epoch:step), of a learner that"));
  EXPECT_TRUE(FindingsOf(run, "checkpoint")[0].accounted);
}

TEST(RunAuditTest, ACheckpointOfAnotherRunIsAFinding) {
  const RunFolder run;
  const std::string folder = run.path() + "/checkpoint/step-0";
  ASSERT_TRUE(MakeFolders(folder).ok());
  const std::string state = R"({"run_id": "other", "step": 0, "learner_epoch": 0, "files": []})";
  ASSERT_TRUE(WriteFileAtomic(folder + "/checkpoint.json", state).ok());
  EXPECT_THAT(FindingsOf(run, "checkpoint").at(0).what,
              HasSubstr("is of run other; the ledger is of made"));
}

}  // namespace
}  // namespace buttress
