#include "lib/checks/report.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace buttress {
namespace {

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

Status ReportChecks(const Findings& findings, bool as_json) {
  if (as_json) fmt::print("{}\n", Json(findings));
  for (const Finding& finding : findings.list()) {
    if (!as_json)
      fmt::print("{:<8} {}: {}\n", SeverityName(finding.severity), finding.check, finding.text);
  }
  std::fflush(stdout);
  if (findings.Verdict().ok()) return OkStatus();
  return InvalidArgument("the run cannot start; fix the errors above");
}

Status ReportProgramChecks(const Findings& findings, const ConfigFlags& flags,
                           const RunConfig& config) {
  BUTTRESS_RETURN_IF_ERROR(ReportChecks(findings, flags.json));
  if (!flags.json) fmt::print("{}: ok (run {})\n", flags.path, RunConfigHash(config).substr(0, 12));
  return OkStatus();
}

}  // namespace buttress
