// A run that is followed, without a scheduler and without gRPC.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/standby/copy_mark.h"
#include "coordinator/standby/mirror.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {

inline constexpr char kStandbyName[] = "standby";
inline constexpr std::uint64_t kSmallSegment = 4096;

// The bytes of the files of a copy by name.
inline std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* part : {"payloads", "archive", "ledger.db", "ledger.db-wal"}) {
    const std::string path = folder + "/" + part;
    if (std::filesystem::is_regular_file(path)) files[part] = *ReadFile(path);
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(path, missing))
      files[std::string(part) + "/" + entry.path().filename().string()] =
          *ReadFile(entry.path().string());
  }
  return files;
}

class StandbyTest : public ::testing::Test {
 protected:
  void Start(StandbyMode mode, std::int64_t wait_ms = 0) {
    ASSERT_TRUE(MakeFolders(folder_).ok());
    mirror_ = std::make_unique<Mirror>(folder_, mode, wait_ms, metrics_);
    ledger_ = *Ledger::Open(folder_ + "/ledger.db");
    payloads_ = *PayloadStore::Open(folder_ + "/payloads", {}, {}, kSmallSegment);
    mirror_->Start("run");
  }

  // A turn that accepts a group, as TurnStore writes it.
  void RunTurn(GroupState state = GroupState::kReady) {
    const std::uint64_t id = ++groups_;
    const std::string payload(1000, static_cast<char>('a' + id % 26));
    AcceptedGroup accepted = MakeAccepted(MakeHead(id, {Outcome::kWrong, Outcome::kWrong}));
    accepted.content_sha256 = Sha256Of(payload);
    accepted.payload = *payloads_->Append({id, 1}, payload, accepted.content_sha256);
    LedgerChanges changes;
    GroupRow group;
    group.group_id = id;
    group.state = state;
    const bool ended = state == GroupState::kSettled;
    if (ended) group.step = id;
    changes.groups.push_back(group);
    changes.accepted.push_back(accepted);
    changes.run.emplace().run_id = "run";
    changes.run->next_group_id = id + 1 + (ended ? kEndedTags : 0);  // so that it may be archived
    ASSERT_TRUE(payloads_->Sync().ok());
    mirror_->PayloadsSynced();
    ASSERT_TRUE(ledger_->Write(changes).ok());
    mirror_->EndTurn();
  }

  // Moves `most` groups to an archive, as TurnStore does.
  void Archive(std::int64_t most) {
    const auto archived =
        ledger_->Archive(0, most, [&](const std::string& path) { mirror_->Archived(path); });
    ASSERT_TRUE(archived.ok()) << archived.status().ToString();
    ASSERT_EQ(*archived, most);
  }

  void DeletePayloads(std::uint64_t first_kept) {
    ASSERT_TRUE(payloads_->DeleteBefore(first_kept).ok());
    mirror_->PayloadsDeleted(first_kept);
  }

  // Takes the records that are there.
  std::vector<v1::FollowResponse> TakeAll(std::uint64_t id) {
    std::vector<v1::FollowResponse> records;
    v1::FollowResponse record;
    while (mirror_->Take(id, std::chrono::milliseconds(0), record) == Mirror::Next::kRecord)
      records.push_back(record);
    return records;
  }

  // Expects that a coordinator could start on `folder`, and returns the groups of its ledger, the
  // payloads of which are all there.
  static std::uint64_t GroupsIn(const std::string& folder) {
    EXPECT_TRUE(PrepareToPromote(folder).ok());
    const auto ledger = Ledger::Open(folder + "/ledger.db");
    EXPECT_TRUE(ledger.ok()) << ledger.status().ToString();
    const auto snapshot = (*ledger)->Load();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().ToString();
    const auto payloads =
        PayloadStore::Open(folder + "/payloads", (*ledger)->payload_end(), {}, kSmallSegment);
    EXPECT_TRUE(payloads.ok()) << payloads.status().ToString();
    for (const auto& [id, group] : snapshot->accepted)
      EXPECT_TRUE((*payloads)->Read(group.payload).ok()) << id;
    return snapshot->accepted.size();
  }

  const TempDir dir_;
  const std::string folder_ = dir_.path() + "/primary", copy_ = dir_.path() + "/standby";
  Metrics metrics_{"coordinator"};
  StandbyGauges gauges_{metrics_};
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  std::uint64_t groups_ = 0;
};

}  // namespace buttress
