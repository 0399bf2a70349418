// The report of `buttress explain` in three forms.
#pragma once

#include <string>
#include <vector>

#include "lib/explain/post_mortem.h"

namespace buttress {

// What the report is about.
struct ReportHead {
  std::string path;
  std::string description;
  std::vector<std::string> remarks;
};

// Formats the report for a terminal, about forty lines.
std::string ReportText(const ReportHead& head, const Report& report);

// Formats one group without a signal as a line: {"step", "prompt", "source", "where", "collapse",
// "cause", "evidence"}, and "sampler" if it is known.
std::string CollapsedGroupJson(const CollapsedGroup& group);

// Formats {"summary": {...}} as a line: counts, causes, rates, steps, sources, remedies, next
// steps.
std::string ReportJson(const ReportHead& head, const Report& report);

// Formats a page without external addresses: plots as inline SVG, tables, examples of every cause.
std::string ReportHtml(const ReportHead& head, const Report& report);

}  // namespace buttress
