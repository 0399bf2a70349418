#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/keep/drop_prune.h"
#include "cli/understand/run_audit.h"
#include "lib/base/os/file.h"
#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DropTest, ADamagedGroupIsDroppedOnceAndItsRecordIsKept) {
  RunFolder run;
  run.StoreConfig(false);
  run.Damage(2);
  run.Close();
  const Result<DroppedGroup> dropped = DropGroup({run.path(), "", 2, "a bad disk"});
  ASSERT_TRUE(dropped.ok()) << dropped.status().ToString();
  EXPECT_EQ(dropped->group.state, GroupState::kReady);
  EXPECT_EQ(ReadFile(dropped->evidence)->substr(kPayloadHeaderBytes), std::string(49, 'c') + "!");
  const RunAudit audit = *AuditRun(run.path());
  EXPECT_THAT(audit.ledger.violations(), IsEmpty());
  EXPECT_EQ(audit.ledger.recounted.groups, 3);
  EXPECT_EQ(audit.ledger.findings[0].what, "group 2 was dropped: a bad disk");
  EXPECT_THAT(DropGroup({run.path(), "", 2, "again"}).status().message(),
              HasSubstr("group 2 is dropped: training needs it no more"));
  const auto ledger = *Ledger::Open(run.path() + "/ledger.db");
  EXPECT_EQ(ledger->Load()->groups.size(), 2);
}

TEST(DropTest, AGroupOfALostSegmentIsDroppedWithoutARecord) {
  RunFolder run;
  run.StoreConfig(false);
  run.Close();
  std::filesystem::remove(run.Segment(2));
  const Result<DroppedGroup> dropped = DropGroup({run.path(), "", 3, "the file is gone"});
  ASSERT_TRUE(dropped.ok()) << dropped.status().ToString();
  EXPECT_EQ(dropped->evidence, "");
}

// The places of payloads are the order in which groups came in.
TEST(DropTest, WhatComesInAfterADropIsBehindTheGroupThatWasDropped) {
  RunFolder run;
  run.StoreConfig(false);
  const PayloadRef dropped = run.ledger().Load()->accepted.at(3).payload;
  run.Close();
  ASSERT_TRUE(DropGroup({run.path(), "", 3, "a bad disk"}).ok());
  for (int start = 0; start < 2; ++start) {
    const auto ledger = *Ledger::Open(run.path() + "/ledger.db");
    const auto payloads = PayloadStore::Open(run.path() + "/payloads", ledger->payload_end(),
                                             *ledger->EndOfAllPayloads());
    ASSERT_TRUE(payloads.ok()) << payloads.status().ToString();
    const auto next = (*payloads)->Append({4, 1}, "bytes", Sha256Of("bytes"));
    ASSERT_TRUE(next.ok());
    EXPECT_GT(next->end(), dropped.end());
  }
  for (const std::uint64_t id : {1, 2})
    ASSERT_TRUE(DropGroup({run.path(), "", id, "as well"}).ok());
  std::filesystem::remove_all(run.path() + "/payloads");
  const auto ledger = *Ledger::Open(run.path() + "/ledger.db");
  const auto open = [&] {
    return PayloadStore::Open(run.path() + "/payloads", ledger->payload_end(),
                              *ledger->EndOfAllPayloads())
        .status();
  };
  EXPECT_THAT(open().message(), HasSubstr("no group needs its payload any more"));
  std::filesystem::create_directories(run.path() + "/payloads");
  ASSERT_TRUE(WriteFileAtomic(run.Segment(2), "").ok());
  EXPECT_TRUE(open().ok());
}

TEST(DropTest, ARunThatGoesOnOrMustBeRepeatableIsLeftAlone) {
  RunFolder run;
  run.StoreConfig(false);
  EXPECT_THAT(DropGroup({run.path(), "", 2, "why"}).status().message(),
              HasSubstr("is open in another coordinator"));
  run.Close();
  run.StoreConfig(true);
  EXPECT_THAT(DropGroup({run.path(), "", 2, "why"}).status().message(),
              HasSubstr("run.deterministic is set"));
  run.StoreConfig(false);
  EXPECT_THAT(DropGroup({run.path(), "", 2, ""}).status().message(), HasSubstr("--reason"));
  EXPECT_THAT(DropGroup({run.path(), "", 4, "why"}).status().message(),
              HasSubstr("has no group 4"));
  EXPECT_THAT(AuditRun(run.path())->ledger.findings.size(), 1);  // no learner's files, no drop
}

}  // namespace
}  // namespace buttress
