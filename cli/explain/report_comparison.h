// Two reports of `buttress explain` next to each other (--compare).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/explain/report.h"

namespace buttress {

struct ComparedReport {
  ReportHead head;
  Report report;
};

// The conclusions of both, and a table of their numbers with the difference of the second from the
// first. Pure.
std::string ReportComparisonText(const ComparedReport& first, const ComparedReport& second);

// {"first": summary, "second": summary, "difference": {"acr": {"value", "low", "high"}, ...}}: the
// summaries are those of ReportJson. Pure.
nlohmann::ordered_json ReportComparisonJson(const ComparedReport& first,
                                            const ComparedReport& second);

}  // namespace buttress
