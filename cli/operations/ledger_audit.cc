// `buttress ledger audit DIR`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/counts_json.h"
#include "cli/operations/ledger_commands.h"
#include "cli/operations/run_audit.h"
#include "lib/base/digest.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct AuditFlags {
  std::string folder;
  std::string learner;
  bool json = false;
};

std::string AuditJson(const RunAudit& audit) {
  ordered_json json;
  json["run"] = audit.run ? ordered_json(audit.run->run_name) : ordered_json();
  json["groups"] = audit.ledger.groups;
  json["dropped"] = audit.ledger.dropped;
  if (audit.run) {
    json["planned_step"] = audit.run->planned_step;
    json["committed_step"] = audit.run->committed_step;
    json["checkpoint_step"] = audit.run->checkpoint_step;
    json["settled_step"] = audit.run->settled_step;
    json["finished"] = audit.run->finished;
  }
  json["payloads"] = {
      {"read", audit.payloads}, {"bytes", audit.payload_bytes}, {"deleted", audit.deleted}};
  if (audit.checkpoint) {
    json["checkpoint"] = {{"step", audit.checkpoint->step},
                          {"learner_epoch", audit.checkpoint->learner_epoch},
                          {"digest", ToHex(audit.checkpoint->digest)}};
  }
  json["reported"] = CountsJson(audit.ledger.reported);
  json["recounted"] = CountsJson(audit.ledger.recounted);
  json["findings"] = ordered_json::array();
  for (const AuditFinding& finding : audit.ledger.findings) {
    json["findings"].push_back({{"kind", finding.kind},
                                {"groups", finding.group_ids},
                                {"what", finding.what},
                                {"accounted", finding.accounted}});
  }
  json["lost"] = audit.ledger.violations().size();
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string CountsText(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text.empty() ? "none" : text;
}

std::string AuditText(const RunAudit& audit) {
  if (!audit.run) return "the coordinator has not started the run yet\n";
  const RunRow& run = *audit.run;
  const CollapseCounts& counts = audit.ledger.recounted;
  std::string text = fmt::format("run {}: step {} planned, {} trained, {} settled{}\n",
                                 run.run_name, run.planned_step, run.committed_step,
                                 run.settled_step, run.finished ? "; finished" : "");
  text += fmt::format("groups: {}; dropped: {}\n", CountsText(audit.ledger.groups),
                      CountsText(audit.ledger.dropped));
  text += fmt::format("payloads: {} read, {} bytes; {} deleted after their groups had ended\n",
                      audit.payloads, audit.payload_bytes, audit.deleted);
  text += audit.checkpoint ? fmt::format("checkpoint: step {}, {}\n", audit.checkpoint->step,
                                         ToHex(audit.checkpoint->digest).substr(0, 12))
                           : std::string("checkpoint: none\n");
  text += fmt::format("ACR {:.4f} = {} of {} groups, recounted from their outcomes\n", counts.acr(),
                      counts.constant(), counts.constant() + counts.mixed);
  for (const AuditFinding& finding : audit.ledger.findings)
    text += fmt::format("{:<9} {:<10} {}\n", finding.accounted ? "accounted" : "LOST", finding.kind,
                        finding.what);
  return text;
}

Status RunAuditCommand(const AuditFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunAudit audit, AuditRun(flags.folder, flags.learner));
  std::fputs((flags.json ? AuditJson(audit) : AuditText(audit)).c_str(), stdout);
  const std::size_t lost = audit.ledger.violations().size();
  if (lost == 0) {
    if (!flags.json) std::puts("everything that was acknowledged is accounted for");
    return OkStatus();
  }
  return DataLoss(
      fmt::format("{} findings are not accounted for; \"The ledger of a run\" in "
                  "docs/operations.md says what to do",
                  lost));
}

}  // namespace

std::function<Status()> AddLedgerAudit(CLI::App& app) {
  const auto flags = std::make_shared<AuditFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be going on")->required();
  app.add_option("--learner", flags->learner,
                 "local.out of the learner, if it is another folder, to check its checkpoint");
  app.add_flag("--json", flags->json, "print one JSON object");
  app.footer("Exit code 0: all is well, or all damage is accounted for. 4: something is lost.");
  return [flags] { return RunAuditCommand(*flags); };
}

}  // namespace buttress
