// Backups of a run: ledger, payloads, checkpoint and configuration of one moment.
//
// <target>/ is a run folder with these files alone, and backup.json, which lists the size and
// SHA-256 of each:
//   ledger.db  archive/*.db  payloads/*.seg  checkpoint/step-<N>/*  config.yaml  steps.jsonl
//   eval_before.json  versions.json
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct BackupSummary {
  std::string run_name;
  std::uint64_t committed_step = 0;   // of the ledger
  std::uint64_t checkpoint_step = 0;  // 0: no checkpoint yet
  std::int64_t files = 0;
  std::int64_t bytes = 0;
};

// Copies the run in `folder`, which may be running, to `target`, which must not exist. The ledger
// is copied in one transaction; checkpoint and payloads are those that it needs. The copy is
// audited (run_audit.h) before it gets its name. kFailedPrecondition if `target` exists; kDataLoss
// names what the run has lost.
Result<BackupSummary> BackUpRun(const std::string& folder, const std::string& target);

// Makes the run folder `folder`, which must not exist, from a backup: checks every digest, and sets
// local.out in config.yaml. kDataLoss names a damaged file.
Result<BackupSummary> RestoreRun(const std::string& backup, const std::string& folder);

}  // namespace buttress
