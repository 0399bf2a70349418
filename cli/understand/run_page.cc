#include "cli/understand/run_page.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/explain/run_report.h"
#include "cli/run_client.h"
#include "cli/train/console.h"
#include "lib/base/os/file.h"
#include "lib/page/page_data.h"
#include "lib/page/page_file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct PageFlags {
  RunFlags run;
  std::string out;  // empty: page.html in the folder of the run
};

ordered_json CausesJson(const Report& report) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < kCauses; ++i) {
    const CauseInfo& info = InfoOf(static_cast<Cause>(i));
    if (report.all.causes[i] > 0)
      rows.push_back({{"name", info.name},
                      {"groups", report.all.causes[i]},
                      {"meaning", info.meaning},
                      {"fix", info.fix}});
  }
  return {{"groups", report.all.groups},
          {"collapsed", report.all.collapsed},
          {"rows", rows},
          {"next", NextSteps(report)}};
}

// The state by the coordinator or, where none of this run answers, by the ledger: the address of a
// run that has ended may be that of another one by now.
Result<v1::GetRunStatusResponse> StatusOfRun(const RunConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(v1::GetRunStatusResponse stored, StatusInLedger(config));
  RunFlags flags;
  flags.run = config.local.out;
  const auto client = ConnectToRun(flags, Program::kStatus, /*give_up_ms=*/0);
  if (!client.ok()) return stored;
  auto answer = (*client)->GetRunStatus();
  return answer.ok() && answer->run_id() == stored.run_id() ? *std::move(answer) : stored;
}

Status WritePage(const PageFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, ConfigOf(flags.run));
  const std::string path = flags.out.empty() ? JoinPath(config.local.out, "page.html") : flags.out;
  BUTTRESS_RETURN_IF_ERROR(WriteRunPage(config, path));
  fmt::print("page of the run, for any browser: {}\n", path);
  return OkStatus();
}

}  // namespace

Status WriteRunPage(const RunConfig& config, const std::string& path) {
  RunConfig run = config;
  run.run.steps = StepsOfRun(run.local.out, run.run);
  const std::unique_ptr<Tokenizer> tokenizer = LoadRunTokenizer(run.local.out, "");
  BUTTRESS_ASSIGN_OR_RETURN(const v1::GetRunStatusResponse status, StatusOfRun(run));
  PageData page(run, tokenizer.get(), [&status] { return status; });
  ordered_json data = page.Whole();
  BUTTRESS_ASSIGN_OR_RETURN(const Report report, ReadReport(run.local.out));
  if (report.all.groups > 0) data["causes"] = CausesJson(report);
  return WriteFileAtomic(path, PageFile(data));
}

std::function<Status()> AddPage(CLI::App& app) {
  const auto flags = std::make_shared<PageFlags>();
  flags->run.AddRun(app);
  app.add_option("--out", flags->out, "the HTML file [page.html in the folder of the run]");
  return [flags] { return WritePage(*flags); };
}

}  // namespace buttress
