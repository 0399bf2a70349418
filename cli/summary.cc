#include "cli/summary.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cli/curves.h"
#include "lib/base/file.h"
#include "lib/ledger/reader.h"
#include "lib/measure/steps_file.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {
namespace {

double TokensPerSecond(const std::vector<StepMeasurements>& steps) {
  if (steps.size() < 2) return 0;
  const double seconds = steps.back().time_unix - steps.front().time_unix;
  const double tokens = std::accumulate(
      steps.begin() + 1, steps.end(), 0.0,
      [](double sum, const StepMeasurements& step) { return sum + step.generated_tokens; });
  return seconds > 0 ? tokens / seconds : 0;
}

std::string ClosingText(const RunConfig& config, const RunSummary& summary,
                        const CollapseCounts& collapse, std::size_t steps) {
  const std::string& out = config.local.out;
  std::string text =
      fmt::format("\n{} steps in {:.0f} s; {} groups accepted, {} collapsed (ACR {:.3f})\n", steps,
                  summary.wall_seconds, collapse.groups, collapse.constant(), collapse.acr());
  if (summary.before && summary.after) {
    text += fmt::format("held-out accuracy, greedy, {} prompts: {:.1f} % before, {:.1f} % after\n",
                        summary.after->prompts, 100 * summary.before->accuracy,
                        100 * summary.after->accuracy);
  }
  for (const auto& [what, path] : {std::pair{"model", "model/"},
                                   {"checkpoint", "checkpoint/"},
                                   {"ledger", "ledger.db"},
                                   {"curves", "curves.svg"},
                                   {"summary", "summary.json"},
                                   {"logs", "logs/"}}) {
    text += fmt::format("  {:<11}{}\n", what, JoinPath(out, path));
  }
  return text;
}

}  // namespace

Result<Accuracy> ReadAccuracy(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("accuracy") || !json["accuracy"].is_number() ||
      !json.contains("prompts") || !json["prompts"].is_number_integer()) {
    return DataLoss(
        path +
        ": expected an object with 'accuracy' and 'prompts'; delete the file to evaluate again");
  }
  return Accuracy{json["accuracy"].get<double>(), json["prompts"].get<std::int64_t>()};
}

Result<std::string> WriteSummary(const RunConfig& config, const RunSummary& summary) {
  const std::string& out = config.local.out;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(JoinPath(out, "steps.jsonl")));
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger, LedgerReader::Open(JoinPath(out, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerAudit audit, AuditLedger(*ledger));
  if (!audit.violations.empty()) {
    return DataLoss(
        fmt::format("the ledger contradicts itself: {} ({} violations in total); keep {} and "
                    "report it",
                    audit.violations.front(), audit.violations.size(), out));
  }
  const CollapseCounts& collapse = audit.recounted;
  nlohmann::ordered_json json;
  json["run"] = config.run.name;
  if (summary.before) json["accuracy_before"] = summary.before->accuracy;
  if (summary.after) json["accuracy_after"] = summary.after->accuracy;
  if (summary.after) json["held_out_prompts"] = summary.after->prompts;
  json["steps"] = steps.size();
  json["groups_accepted"] = collapse.groups;
  json["groups_collapsed"] = collapse.constant();
  json["groups_all_correct"] = collapse.all_correct;
  json["groups_all_wrong"] = collapse.all_wrong;
  json["groups_other_constant"] = collapse.other_constant;
  json["groups_unscorable"] = collapse.unscorable;
  json["acr"] = collapse.acr();
  json["tokens_per_second"] = TokensPerSecond(steps);
  json["wall_seconds"] = summary.wall_seconds;
  json["restarts"] = summary.restarts;
  json["peak_rss_bytes"] = summary.peak_rss_bytes;
  json["collective"] = ChoiceName(config.local.learner.collective);
  json["engine"] = ChoiceName(config.local.worker.engine);
  json["advantage"] = ChoiceName(config.run.algorithm.advantage);
  BUTTRESS_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(out, "curves.svg"), CurvesSvg(config.run.name, steps)));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out, "summary.json"), json.dump(2) + "\n"));
  return ClosingText(config, summary, collapse, steps.size());
}

}  // namespace buttress
