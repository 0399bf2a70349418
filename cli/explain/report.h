// The report of `buttress explain` in three forms.
#pragma once

#include <string>
#include <vector>

#include "lib/explain/post_mortem.h"

namespace buttress {

// What was read.
struct ReportHead {
  std::string path;
  std::string description;
  std::vector<std::string> remarks;
};

// For a terminal, about forty lines.
std::string ReportText(const ReportHead& head, const Report& report);

// One collapsed group on a line: {"step", "prompt", "source", "where", "collapse", "cause",
// "evidence"}, "sampler" where it is known.
std::string CollapsedGroupJson(const CollapsedGroup& group);

// {"summary": {...}} on a line: counts, causes, rates, steps, sources, remedies, next steps.
std::string ReportJson(const ReportHead& head, const Report& report);

// One page without any address in it: plots as inline SVG, tables, examples of every cause.
std::string ReportHtml(const ReportHead& head, const Report& report);

}  // namespace buttress
