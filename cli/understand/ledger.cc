// `buttress ledger COMMAND DIR`: what the ledger of a run folder knows.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"

namespace buttress {
namespace {

constexpr CommandEntry kLedgerCommands[] = {
    {"audit", "check that everything that was acknowledged is accounted for", AddLedgerAudit},
    {"show", "print everything that is known of a group", AddLedgerShow},
    {"drop", "give up a group whose payload is damaged for good", AddLedgerDrop},
    {"prune", "delete payloads that training needs no more", AddLedgerPrune},
};

}  // namespace

std::function<Status()> AddLedger(CLI::App& app) {
  app.require_subcommand(1);
  const auto chosen = std::make_shared<std::function<Status()>>();
  for (const CommandEntry& command : kLedgerCommands) {
    CLI::App& sub = *app.add_subcommand(command.name, command.summary);
    sub.callback([chosen, action = command.add(sub)] { *chosen = action; });
  }
  return [chosen] { return (*chosen)(); };
}

}  // namespace buttress
