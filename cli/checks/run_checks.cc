#include "cli/checks/run_checks.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/checks/machine_checks.h"
#include "cli/checks/model_checks.h"
#include "cli/checks/prompt_checks.h"
#include "cli/checks/resume_check.h"
#include "cli/checks/reward_checks.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

constexpr std::size_t kQuickRows = 100, kAllRows = 2000;

std::string Json(const Findings& findings) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& finding : findings.list()) {
    checks.push_back({{"check", finding.check},
                      {"severity", SeverityName(finding.severity)},
                      {"text", finding.text}});
  }
  const nlohmann::ordered_json report{{"ok", findings.Verdict().ok()}, {"checks", checks}};
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Findings CheckRun(const RunConfig& config, CheckDepth depth) {
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  CheckPrompts(config.run, model, depth == CheckDepth::kQuick ? kQuickRows : kAllRows, findings);
  CheckPrograms(config.local, findings);
  CheckCredentials(config.local, findings);
  CheckPorts(config.local, findings);
  CheckDisk(config, model.parameters, findings);
  if (depth == CheckDepth::kQuick) return findings;
  // A reward needs rows that can be used; a model or file that cannot be is reported already.
  if (model.tokenizer && findings.Verdict().ok())
    CheckReward(config.run, *model.tokenizer, findings);
  if (config.local.worker.engine == EngineKind::kVllm)
    CheckServers(config.local.worker.vllm, findings);
  return findings;
}

Findings CheckRunFile(const std::string& path, const std::vector<std::string>& overrides,
                      CheckDepth depth) {
  const auto config = LoadRunConfig(path, overrides);
  Findings findings;
  if (config.ok()) {
    findings = CheckRun(*config, depth);
    CheckResume(*config, findings);
    return findings;
  }
  findings.Error("configuration", config.status().message());
  return findings;
}

Status ReportChecks(const Findings& findings, bool as_json) {
  if (as_json) fmt::print("{}\n", Json(findings));
  for (const Finding& finding : findings.list()) {
    if (!as_json)
      fmt::print("{:<8} {}: {}\n", SeverityName(finding.severity), finding.check, finding.text);
  }
  std::fflush(stdout);
  if (findings.Verdict().ok()) return OkStatus();
  return InvalidArgument("the run cannot start; mend the errors above");
}

}  // namespace buttress
