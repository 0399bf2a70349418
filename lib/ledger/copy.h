// A copy of a ledger as of one moment, while its coordinator runs.
#pragma once

#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Copies the ledger `path` to the new file `target`, durably, with SQLite's backup interface: the
// copy lies between two transactions of the coordinator. It is one file, without a write-ahead log.
// kNotFound if there is no ledger.
Status CopyLedger(const std::string& path, const std::string& target);

}  // namespace buttress
