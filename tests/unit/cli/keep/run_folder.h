// A run folder made by hand: groups with payloads, without a learner.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"

namespace buttress {

// Three ready groups of one completion each; group 3 is in a segment of its own.
class RunFolder {
 public:
  RunFolder() {
    ledger_ = *Ledger::Open(path() + "/ledger.db");
    const auto payloads = *PayloadStore::Open(path() + "/payloads", {}, {}, 176);
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->run_id = changes.run->run_name = "made";
    changes.run->next_group_id = 4;
    changes.run->sources = {{.name = {}, .dataset = {4, "aa"}, .cursor = {0, 3, 3}}};
    for (std::uint64_t id = 1; id <= 3; ++id) {
      changes.groups.push_back(Ready(id));
      changes.accepted.push_back(Accepted(id, *payloads));
      changes.histories[id] = {1, 1};
      changes.collapse["s"].Add(CollapseClass::kUnscorable);
    }
    EXPECT_TRUE(payloads->Sync().ok());
    Write(changes);
  }

  static GroupRow Ready(std::uint64_t id) {
    GroupRow row;
    row.group_id = id;
    row.prompt = {"p" + std::to_string(id), "s", 0, id, 1};
    row.state = GroupState::kReady;
    row.attempts = 1;
    row.lease_epoch = 1;
    row.worker_id = "w";
    return row;
  }

  void Write(const LedgerChanges& changes) {
    const Status status = ledger_->Write(changes);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  // Changes the last byte of a group's payload.
  void Damage(std::uint64_t id) {
    const PayloadRef ref = ledger_->Load()->accepted.at(id).payload;
    std::fstream file(Segment(ref.segment), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(ref.end().offset - 1));
    file.put('!');
  }

  std::string Segment(std::uint64_t segment) const {
    return path() + "/payloads/0000000" + std::to_string(segment) + ".seg";
  }

  const std::string& path() const { return folder_.path(); }

  Ledger& ledger() { return *ledger_; }

  // Ends what a coordinator would hold.
  void Close() { ledger_.reset(); }

  // The configuration that a coordinator would have stored.
  void StoreConfig(bool deterministic) const {
    RunConfig config;
    config.run.model.path = "model";
    config.run.data.prompts = "prompts.jsonl";
    config.run.deterministic = deterministic;
    if (deterministic) {
      config.run.batch.max_age = 0;
      config.run.batch.window = 1;
    }
    config.local.out = path();
    EXPECT_TRUE(WriteFileAtomic(StoredConfigPath(path()), PrintRunConfig(config)).ok());
  }

 private:
  static AcceptedGroup Accepted(std::uint64_t id, PayloadStore& payloads) {
    const std::string bytes(50, static_cast<char>('a' + id));
    AcceptedGroup row = MakeAccepted(MakeHead(id, {Outcome::kCorrect}));
    row.content_sha256 = Sha256Of(bytes);
    row.payload = *payloads.Append({id, 1}, bytes, row.content_sha256);
    return row;
  }

  TempDir folder_;
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace buttress
