#include "cli/compare/compare.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/compare/comparison.h"
#include "cli/output.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  std::string html, json;
};

}  // namespace

Status CompareAndPrint(const std::vector<std::string>& folders, const std::string& html_path,
                       const std::string& json_path) {
  BUTTRESS_ASSIGN_OR_RETURN(const Comparison comparison, CompareRuns(folders));
  std::fputs(ComparisonText(comparison).c_str(), stdout);
  if (!html_path.empty()) {
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(html_path, ComparisonHtml(comparison)));
    std::printf("\npage with curves: %s\n", html_path.c_str());
  }
  return json_path.empty() ? OkStatus()
                           : WriteFileAtomic(json_path, JsonLine(ComparisonJson(comparison)));
}

std::function<Status()> AddCompare(CLI::App& app) {
  const auto flags = std::make_shared<CompareFlags>();
  app.add_option("runs", flags->runs, "two run folders or more; they may be running")->required();
  app.add_option("--out", flags->html, "write a page with curves and tables to this HTML file");
  app.add_option("--json", flags->json, "write everything but the curves to this JSON file");
  return [flags] { return CompareAndPrint(flags->runs, flags->html, flags->json); };
}

}  // namespace buttress
