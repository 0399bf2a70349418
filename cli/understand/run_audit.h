// The audit of a whole run folder: ledger, payloads and checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/report/status.h"
#include "lib/ledger/audit.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {

struct RunAudit {
  std::optional<RunRow> run;  // nullopt before the coordinator's first write
  LedgerAudit ledger;         // its findings are those of the whole folder
  std::int64_t payloads = 0;  // that were read and have the right digest
  std::int64_t payload_bytes = 0;
  std::int64_t deleted = 0;  // payloads of settled and dropped groups that are deleted
  std::optional<CheckpointIdentity> checkpoint;  // the newest whole one
};

// Audits the run in `folder`: AuditLedger; the payload of every accepted group that is neither
// settled nor dropped is there and has its digest; the learner can start from a whole checkpoint
// that the ledger knows. `learner_folder` is local.out of the learner, by default `folder`; where a
// folder has no file of a learner, checkpoints are not checked, and a finding says so. Never
// writes; works during the run. The rows are read in one transaction, which ends before the
// payloads are read. kNotFound if there is no ledger.
Result<RunAudit> AuditRun(const std::string& folder, const std::string& learner_folder = "");

}  // namespace buttress
