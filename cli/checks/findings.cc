#include "cli/checks/findings.h"

#include <utility>

namespace buttress {

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

void Findings::Ok(std::string check, std::string text) {
  list_.push_back({Severity::kOk, std::move(check), std::move(text)});
}

void Findings::Warn(std::string check, std::string text) {
  list_.push_back({Severity::kWarning, std::move(check), std::move(text)});
}

void Findings::Error(std::string check, std::string text) {
  list_.push_back({Severity::kError, std::move(check), std::move(text)});
}

Status Findings::Verdict() const {
  std::string errors;
  for (const Finding& finding : list_) {
    if (finding.severity != Severity::kError) continue;
    errors += "\n  " + finding.check + ": " + finding.text;
  }
  if (errors.empty()) return OkStatus();
  return InvalidArgument("the run cannot start:" + errors);
}

}  // namespace buttress
