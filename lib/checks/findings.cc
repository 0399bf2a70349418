#include "lib/checks/findings.h"

#include <algorithm>
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

Severity SeverityOf(std::string_view name) {
  for (const Severity severity : {Severity::kOk, Severity::kWarning})
    if (name == SeverityName(severity)) return severity;
  return Severity::kError;
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

void Findings::AddNew(const Finding& finding) {
  if (std::ranges::find(list_, finding) == list_.end()) list_.push_back(finding);
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
