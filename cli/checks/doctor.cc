// `buttress doctor RUN.yaml`: every check of a run without a start, and with --data what the first
// rows become.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/checks/run_checks.h"
#include "cli/command.h"
#include "cli/prepare/verify.h"
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
  std::string response_field;
  bool json = false;
};

// The responses of a row as `buttress verify` reads them.
ResponseReader ReaderOf(const std::string& field) {
  if (field.empty()) return nullptr;
  return [field](const std::string& row) -> Result<std::vector<std::string>> {
    VerifyFields fields;
    fields.response = field;
    fields.answer.clear();
    JsonRow json;
    json.fields = ordered_json::parse(row);
    BUTTRESS_ASSIGN_OR_RETURN(VerifyRow read, ReadVerifyRow(std::move(json), fields));
    return std::move(read.responses);
  };
}

std::string VerdictText(const Verdict& verdict) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (verdict.outcome == Outcome::kUnscorable) return outcome + ": " + verdict.unscorable_reason;
  std::string text = fmt::format("{}, raw reward {:g}", outcome, TotalReward(verdict));
  for (const VerdictPart& part : verdict.parts) {
    text += &part == &verdict.parts.front() ? " = " : " + ";
    if (part.weight != 1) text += fmt::format("{:g} * ", part.weight);
    text += fmt::format("{} {:g}", part.name, part.raw_reward);
  }
  return text;
}

void PrintRow(const TriedRow& row, bool as_json) {
  if (as_json) {
    ordered_json object{{"id", row.id},
                        {"source", row.source},
                        {"prompt", row.prompt},
                        {"answer", row.answer},
                        {"answer_verdict", VerdictText(row.gold)},
                        {"wrong_response", kWrongResponse},
                        {"wrong_verdict", VerdictText(row.wrong)}};
    for (std::size_t i = 0; i < row.responses.size(); ++i)
      object["responses"].push_back(
          {{"response", row.responses[i]}, {"verdict", VerdictText(row.given[i])}});
    fmt::print("{}\n", object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print(
      "row {} (source {})\n  prompt  {}\n  answer  {}\n  the answer as a response: {}\n"
      "  '{}' as a response: {}\n",
      row.id, row.source, row.prompt, row.answer, VerdictText(row.gold), kWrongResponse,
      VerdictText(row.wrong));
  for (std::size_t i = 0; i < row.responses.size(); ++i)
    fmt::print("  its response {}: {}\n", row.responses[i], VerdictText(row.given[i]));
}

Status ShowData(const DoctorFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags.path, flags.overrides));
  Findings findings;
  const ModelFacts model = CheckModel(config.run, findings);
  if (!model.tokenizer) return findings.Verdict();
  const auto rows = TryRows(config.run, *model.tokenizer, ReaderOf(flags.response_field));
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
  CLI::Option* data = app.add_flag(
      "--data", flags->data,
      "print three rows: prompt, answer, and how the answer and a wrong one are scored");
  app.add_option("--response-field", flags->response_field,
                 "with --data: also score the response in this field of the rows, or its list of "
                 "them; a dotted path names a field inside another one")
      ->needs(data);
  app.add_flag("--json", flags->json, "print JSON");
  return [flags]() -> Status { return flags->data ? ShowData(*flags) : Examine(*flags); };
}

}  // namespace buttress
