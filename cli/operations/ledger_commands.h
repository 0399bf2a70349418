// The subcommands of `buttress ledger`.
#pragma once

#include <functional>

#include "lib/base/status.h"

namespace CLI {
class App;
}

namespace buttress {

// As AddCommand (cli/command.h).
std::function<Status()> AddLedgerAudit(CLI::App& app);
std::function<Status()> AddLedgerShow(CLI::App& app);
std::function<Status()> AddLedgerDrop(CLI::App& app);
std::function<Status()> AddLedgerPrune(CLI::App& app);

}  // namespace buttress
