#include "cli/compare/compare.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/compare/comparison.h"
#include "cli/compare/eval_comparison.h"
#include "cli/output.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

struct CompareFlags {
  std::vector<std::string> compared;
  std::string html, json;
};

// Results of evaluations are files, and runs are folders.
Status CompareEvalsAndPrint(const CompareFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const EvalComparison comparison, CompareEvals(flags.compared));
  std::fputs(EvalComparisonText(comparison).c_str(), stdout);
  if (!flags.html.empty()) {
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(flags.html, EvalComparisonHtml(comparison)));
    std::printf("page with a plot: %s\n", flags.html.c_str());
  }
  return flags.json.empty() ? OkStatus()
                            : WriteFileAtomic(flags.json, JsonLine(EvalComparisonJson(comparison)));
}

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
  app.add_option("runs", flags->compared,
                 "two run folders or more, or results of `buttress eval --results`, one or more; "
                 "they may be at work")
      ->required();
  app.add_option("--out", flags->html, "write a page with curves and tables to this HTML file");
  app.add_option("--json", flags->json, "write everything but the curves to this JSON file");
  return [flags] {
    std::error_code none;
    return std::filesystem::is_regular_file(flags->compared[0], none)
               ? CompareEvalsAndPrint(*flags)
               : CompareAndPrint(flags->compared, flags->html, flags->json);
  };
}

}  // namespace buttress
