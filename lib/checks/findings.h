// The findings of the checks of a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/choice.h"

namespace buttress {

// "1.5 GiB", or "1.5 MiB" below one GiB.
std::string SizeText(double bytes);

enum class Severity : std::uint8_t { kOk, kWarning, kError };

template <>
inline constexpr ChoiceRow<Severity> kChoices<Severity>[] = {
    {Severity::kOk, "ok"},
    {Severity::kWarning, "warning"},
    {Severity::kError, "error"},
};

struct Finding {
  Severity severity = Severity::kOk;
  std::string check;  // what was checked: a setting or a part of the run
  std::string text;   // what was found and, unless all is well, what is expected and the fix

  bool operator==(const Finding&) const = default;
};

// Collects findings in the order of the checks. Not thread-safe.
class Findings {
 public:
  void Ok(std::string check, std::string text);
  void Warn(std::string check, std::string text);
  void Error(std::string check, std::string text);

  // Adds a finding of another list, unless it is here already.
  void AddNew(const Finding& finding);

  const std::vector<Finding>& list() const { return list_; }

  // Returns kInvalidArgument that lists every error, a line each; OK if there is none. Warnings are
  // no errors.
  Status Verdict() const;

  // Prints a line for each finding to standard output, or JSON: {"ok": ..., "checks": [{"check",
  // "severity", "text"}]}. kInvalidArgument, without the list, if there is an error.
  Status Report(bool as_json) const;

 private:
  std::vector<Finding> list_;
};

}  // namespace buttress
