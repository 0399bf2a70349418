#include "cli/keep/backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/understand/run_audit.h"
#include "lib/base/os/file.h"
#include "tests/unit/cli/keep/run_folder.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BackupTest, ARunIsCopiedWhileItsCoordinatorHasItAndRestoredUnderAnotherName) {
  RunFolder run;
  run.StoreConfig(false);
  std::ofstream(run.Segment(2), std::ios::app) << "never acknowledged";
  std::ofstream(JoinPath(run.path(), "versions.json")) << "what it was made of";
  TempDir folder;
  const std::string backup = folder.path() + "/backup", moved = folder.path() + "/moved";
  const Result<BackupSummary> made = BackUpRun(run.path(), backup);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->files, 5);  // ledger, two segments, configuration, versions
  const Result<BackupSummary> restored = RestoreRun(backup, moved);
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(restored->bytes, made->bytes);
  EXPECT_EQ(LoadRunConfig(moved + "/config.yaml", {})->local.out, moved);
  const RunAudit audit = *AuditRun(moved);
  EXPECT_THAT(audit.ledger.violations(), IsEmpty());
  EXPECT_EQ(audit.payloads, 3);
  const auto ledger = *Ledger::Open(moved + "/ledger.db");
  EXPECT_EQ(*ledger->Load(), *run.ledger().Load());
  EXPECT_EQ(*ReadFile(moved + "/versions.json"), "what it was made of");
  EXPECT_EQ(std::filesystem::file_size(moved + "/payloads/00000002.seg"), kPayloadHeaderBytes + 50);
}

// Ends the groups of the folder, and as many more as it takes until some may be archived.
TEST(BackupTest, ArchivesAreCopiedAndMissedInARestore) {
  constexpr std::uint64_t kGroups = kEndedTags + 100;
  RunFolder run;
  run.StoreConfig(false);
  LedgerChanges changes;
  changes.run = *run.ledger().Run();
  changes.run->next_group_id = kGroups + 1;
  changes.run->sources = {{.name = {}, .dataset = {2 * kGroups, "aa"}, .cursor = {}}};
  changes.run->sources[0].cursor = {0, kGroups, kGroups};
  changes.ended_tokens = EndedTokens{0, 0, 1000};
  for (std::uint64_t id = 1; id <= kGroups; ++id) {
    changes.groups.push_back(RunFolder::Ready(id));
    changes.groups.back().state = GroupState::kDropped;
    changes.groups.back().reason = DropReason::kStale;
  }
  run.Write(changes);
  ASSERT_EQ(*run.ledger().Archive(0, 100000), 100);
  TempDir folder;
  const std::string backup = folder.path() + "/backup", moved = folder.path() + "/moved";
  const Result<BackupSummary> made = BackUpRun(run.path(), backup);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  ASSERT_TRUE(RestoreRun(backup, moved).ok());
  const RunAudit audit = *AuditRun(moved);
  EXPECT_THAT(audit.ledger.violations(), IsEmpty());
  EXPECT_EQ(audit.ledger.groups.at("dropped"), static_cast<std::int64_t>(kGroups));
  std::filesystem::remove(ArchivePath(backup + "/ledger.db", 1));
  const Status refused = RestoreRun(backup, folder.path() + "/again").status();
  EXPECT_THAT(refused.message(), HasSubstr("archive/00000001.db"));
}

TEST(BackupTest, WhatExistsOrIsDamagedIsRefusedAndLeavesNothing) {
  RunFolder run;
  run.StoreConfig(false);
  TempDir folder;
  const std::string backup = folder.path() + "/backup", moved = folder.path() + "/moved";
  EXPECT_THAT(BackUpRun(run.path(), folder.path()).status().message(), HasSubstr(" exists; "));
  ASSERT_TRUE(BackUpRun(run.path(), backup).ok());
  std::ofstream(backup + "/payloads/00000001.seg", std::ios::app) << "!";
  EXPECT_THAT(RestoreRun(backup, moved).status().message(),
              HasSubstr("00000001.seg is not what was backed up"));
  EXPECT_FALSE(std::filesystem::exists(moved));
  run.Damage(2);
  const Status damaged = BackUpRun(run.path(), folder.path() + "/second").status();
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.message(), HasSubstr("group 2 is ready"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/second"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/second.part"));
}

}  // namespace
}  // namespace buttress
