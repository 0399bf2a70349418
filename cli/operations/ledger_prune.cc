// `buttress ledger prune DIR`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/operations/ledger_commands.h"
#include "cli/operations/prune.h"

namespace buttress {
namespace {

struct PruneFlags {
  std::string folder;
  bool dry_run = false;
  bool json = false;
};

Status Prune(const PruneFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const PrunedPayloads pruned,
                            PrunePayloads(flags.folder, flags.dry_run));
  if (flags.json) {
    const nlohmann::ordered_json json = {{"dry_run", flags.dry_run},
                                         {"segments", pruned.segments},
                                         {"bytes", pruned.bytes},
                                         {"groups", pruned.groups}};
    fmt::print("{}\n", json.dump());
    return OkStatus();
  }
  fmt::print("{} {} segments with {} bytes: the tokens of {} groups that are settled or dropped\n",
             flags.dry_run ? "would delete" : "deleted", pruned.segments, pruned.bytes,
             pruned.groups);
  fmt::print("`ledger show` has no texts of these groups; explain reads rows and loses nothing\n");
  return OkStatus();
}

}  // namespace

std::function<Status()> AddLedgerPrune(CLI::App& app) {
  const auto flags = std::make_shared<PruneFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be going on")->required();
  app.add_flag("--dry-run", flags->dry_run, "say what would be deleted, and delete nothing");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return Prune(*flags); };
}

}  // namespace buttress
