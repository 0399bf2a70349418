// `buttress doctor RUN.yaml`: every check of a run without a start, and with --data what the first
// rows become.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/checks/run_checks.h"
#include "cli/command.h"
#include "lib/checks/data_checks.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct DoctorFlags {
  std::string path;
  std::vector<std::string> overrides;
  HostsFlags hosts;
  bool data = false;
  bool json = false;
};

std::string VerdictText(const Verdict& verdict) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (verdict.outcome == Outcome::kUnscorable) return outcome + ": " + verdict.unscorable_reason;
  return fmt::format("{}, reward {:g}", outcome, ShapedReward(verdict));
}

void PrintRow(const TriedRow& row, bool as_json) {
  if (as_json) {
    const ordered_json object{{"id", row.id},
                              {"source", row.source},
                              {"prompt", row.prompt},
                              {"answer", row.answer},
                              {"answer_verdict", VerdictText(row.gold)},
                              {"wrong_response", kWrongResponse},
                              {"wrong_verdict", VerdictText(row.wrong)}};
    fmt::print("{}\n", object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print(
      "row {} (source {})\n  prompt  {}\n  answer  {}\n  the answer as a response: {}\n"
      "  '{}' as a response: {}\n",
      row.id, row.source, row.prompt, row.answer, VerdictText(row.gold), kWrongResponse,
      VerdictText(row.wrong));
}

Status ShowData(const DoctorFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags.path, flags.overrides));
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  if (!model.tokenizer) return findings.Verdict();
  const auto rows = TryRows(config.run, *model.tokenizer);
  if (!rows.ok()) {
    std::string message = rows.status().message();
    for (const PromptDataset& dataset : DatasetsOf(config.run)) message += FieldAdvice(dataset);
    return InvalidArgument(message);
  }
  for (const TriedRow& row : *rows) PrintRow(row, flags.json);
  return OkStatus();
}

Status Examine(const DoctorFlags& flags) {
  return CheckRunFile({flags.path, flags.overrides}, flags.hosts, /*fresh=*/false)
      .Report(flags.json);
}

}  // namespace

std::function<Status()> AddDoctor(CLI::App& app) {
  const auto flags = std::make_shared<DoctorFlags>();
  AddConfigFile(app, flags->path)->required();
  app.add_option("--set", flags->overrides, "override a setting; may be repeated")
      ->allow_extra_args(false);
  flags->hosts.AddTo(app);
  app.add_flag("--data", flags->data,
               "print three rows: prompt, answer, and how the answer and a wrong one are scored");
  app.add_flag("--json", flags->json, "print JSON");
  return [flags]() -> Status { return flags->data ? ShowData(*flags) : Examine(*flags); };
}

}  // namespace buttress
