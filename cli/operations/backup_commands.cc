// `buttress backup DIR TARGET` and `buttress restore TARGET DIR`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/operations/backup.h"

namespace buttress {
namespace {

struct CopyFlags {
  std::string from;
  std::string to;
  bool json = false;
};

void Print(const CopyFlags& flags, const BackupSummary& summary, const std::string& next) {
  if (flags.json) {
    const nlohmann::ordered_json json = {{"run", summary.run_name},
                                         {"committed_step", summary.committed_step},
                                         {"checkpoint_step", summary.checkpoint_step},
                                         {"files", summary.files},
                                         {"bytes", summary.bytes}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: run {}, trained to step {}, checkpoint of step {}; {} files, {} bytes\n{}\n",
             flags.to, summary.run_name, summary.committed_step, summary.checkpoint_step,
             summary.files, summary.bytes, next);
}

Status BackUp(const CopyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const BackupSummary summary, BackUpRun(flags.from, flags.to));
  Print(flags, summary, "restore it with: buttress restore " + flags.to + " DIR");
  return OkStatus();
}

Status Restore(const CopyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const BackupSummary summary, RestoreRun(flags.from, flags.to));
  Print(flags, summary, "go on with: buttress launch " + flags.to + "/config.yaml");
  return OkStatus();
}

}  // namespace

std::function<Status()> AddBackup(CLI::App& app) {
  const auto flags = std::make_shared<CopyFlags>();
  app.add_option("dir", flags->from, "run folder; the run may be going on")->required();
  app.add_option("target", flags->to, "folder to make; it must not exist")->required();
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return BackUp(*flags); };
}

std::function<Status()> AddRestore(CLI::App& app) {
  const auto flags = std::make_shared<CopyFlags>();
  app.add_option("backup", flags->from, "folder that `buttress backup` made")->required();
  app.add_option("dir", flags->to, "run folder to make; it must not exist")->required();
  app.add_flag("--json", flags->json, "print one JSON object");
  return [flags] { return Restore(*flags); };
}

}  // namespace buttress
