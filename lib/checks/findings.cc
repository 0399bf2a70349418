#include "lib/checks/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace buttress {

using nlohmann::ordered_json;

std::string SizeText(double bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  return bytes < kGiB ? fmt::format("{:.1f} MiB", bytes / kMiB)
                      : fmt::format("{:.1f} GiB", bytes / kGiB);
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

Status Findings::Report(bool as_json) const {
  const bool ok = Verdict().ok();
  ordered_json checks = ordered_json::array();
  for (const auto& [severity, check, text] : list_) {
    const std::string_view name = ChoiceName(severity);
    checks.push_back({{"check", check}, {"severity", name}, {"text", text}});
    if (!as_json) fmt::print("{:<8} {}: {}\n", name, check, text);
  }
  if (as_json) {
    const ordered_json report{{"ok", ok}, {"checks", checks}};
    fmt::print("{}\n", report.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  }
  std::fflush(stdout);
  return ok ? OkStatus() : InvalidArgument("the run cannot start; fix the errors above");
}

}  // namespace buttress
