#include "cli/keep/prune.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/command.h"
#include "lib/base/os/file.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/segment_file.h"

namespace buttress {

Result<PrunedPayloads> PrunePayloads(const std::string& folder, bool dry_run) {
  struct Content {
    std::int64_t ended = 0;
    bool needed = false;
  };

  std::map<std::uint64_t, Content> segments;
  PayloadEnd end;
  {
    BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(JoinPath(folder, "ledger.db")));
    BUTTRESS_RETURN_IF_ERROR(reader->ForEachGroup([&](const GroupRecord& record) {
      if (!record.accepted || record.accepted->damaged) return;
      Content& segment = segments[record.accepted->payload.segment];
      const GroupState state = record.group.state;
      const bool ended = state == GroupState::kSettled || state == GroupState::kDropped;
      ended ? void(++segment.ended) : void(segment.needed = true);
    }));
    BUTTRESS_ASSIGN_OR_RETURN(end, reader->EndOfPayloads());
  }
  const std::string payloads = JoinPath(folder, "payloads");
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(payloads));
  PrunedPayloads pruned;
  for (const auto& [number, segment] : segments) {
    const auto size = sizes.find(number);
    if (segment.needed || number >= end.segment || size == sizes.end()) continue;
    std::error_code error;
    if (!dry_run) std::filesystem::remove(SegmentPath(payloads, number), error);
    if (error) return Unavailable(SegmentPath(payloads, number) + ": " + error.message());
    ++pruned.segments;
    pruned.bytes += static_cast<std::int64_t>(size->second);
    pruned.groups += segment.ended;
  }
  if (!dry_run) BUTTRESS_RETURN_IF_ERROR(SyncFolder(payloads));
  return pruned;
}

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
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  app.add_flag("--dry-run", flags->dry_run, "say what would be deleted, and delete nothing");
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return Prune(*flags); };
}

}  // namespace buttress
