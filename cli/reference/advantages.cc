// `buttress advantages FILE`: the advantages that an estimator gives to the rewards of a file, by
// the learner's own code path.
#include "cli/reference/advantages.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "lib/config/load.h"
#include "lib/data/json_rows.h"
#include "lib/experience/group_offsets.h"
#include "lib/rl/advantage/virtual_samples.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct Summary {
  CollapseSnapshot snapshot;
  std::int64_t near_collapse = 0;
  double variance_acr = 0;
  std::int64_t virtual_groups = 0;
  std::int64_t with_advantage = 0;  // groups that may have a gradient
};

std::span<const double> Rows(const std::vector<double>& values, const GroupBatch& batch,
                             std::size_t k) {
  return GroupRows(std::span<const double>(values), batch.group_offsets, k);
}

bool NearCollapse(const GroupBatch& batch, std::size_t k) {
  return IsNearCollapse(
      Rows(batch.rewards, batch, k),
      GroupRows(std::span<const Outcome>(batch.outcomes), batch.group_offsets, k));
}

// Whether there is more to expect a rate from than the groups that it would judge.
bool HasHistory(const GroupBatch& batch) {
  return std::ranges::any_of(batch.history, [](const PromptHistory& of) { return of.scored > 0; });
}

std::string ExpectedText(const GroupBatch& batch, const CollapseSnapshot& snapshot) {
  if (!HasHistory(batch)) return "no information: no group has a 'history'";
  return fmt::format("{:.3f}, excess {:+.3f}", snapshot.expected_acr, ExcessAcr(snapshot));
}

bool HasGradient(const GroupBatch& batch, const AdvantageOutput& out, std::size_t k) {
  bool any = false;
  for (auto row = batch.group_offsets[k]; row < batch.group_offsets[k + 1]; ++row)
    any = any || out.has_gradient(static_cast<std::size_t>(row));
  return any;
}

Summary Summarize(const GroupBatch& batch, const AdvantageOutput& out,
                  const AlgorithmConfig& options) {
  Summary summary;
  summary.snapshot = batch.Input().collapse;
  summary.variance_acr = VarianceThresholdAcr(batch.rewards, batch.outcomes, batch.group_offsets,
                                              options.avspo.variance_threshold);
  for (std::size_t k = 0; k < batch.ids.size(); ++k) {
    summary.virtual_groups += out.decisions[k].injected ? 1 : 0;
    summary.near_collapse += NearCollapse(batch, k) ? 1 : 0;
    summary.with_advantage += HasGradient(batch, out, k) ? 1 : 0;
  }
  return summary;
}

ordered_json SummaryJson(const GroupBatch& batch, const AdvantageOutput& out,
                         const AlgorithmConfig& options) {
  const Summary summary = Summarize(batch, out, options);
  const CollapseCounts& counts = summary.snapshot.step;
  ordered_json json = {{"estimator", ChoiceName(options.advantage)}};
  if (options.advantage == Estimator::kAvspo) json["mode"] = ChoiceName(options.avspo.mode);
  json.update(CountsJson(counts));
  json.update({{"completions", batch.rewards.size()},
               {"collapsed", counts.constant()},
               {"near_collapse", summary.near_collapse},
               {"expected_acr", nullptr},
               {"excess_acr", nullptr},
               {"variance_acr", summary.variance_acr},
               {"with_advantage", summary.with_advantage},
               {"virtual_groups", summary.virtual_groups}});
  if (HasHistory(batch)) {
    json["expected_acr"] = summary.snapshot.expected_acr;
    json["excess_acr"] = ExcessAcr(summary.snapshot);
  }
  if (out.gate)
    json["gate"] = {
        {"rate", out.gate->rate}, {"threshold", out.gate->threshold}, {"open", out.gate->open}};
  if (out.next_gate.threshold) json["next_threshold"] = *out.next_gate.threshold;
  return json;
}

std::string GateText(const VirtualDecision& decision) {
  if (!decision.injected) return "-";
  return fmt::format("{:.4g} virtual, weight {:.3g}", decision.virtual_samples, decision.weight);
}

struct AdvantagesFlags {
  std::string path;
  std::string estimator;
  std::vector<std::string> overrides;
  std::uint64_t seed = 1;
  std::int64_t step = 1;
  bool json = false;
  bool markdown = false;
};

// Reads a file or a pipe, whose size is unknown in advance.
Result<std::string> Read(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path == "-" ? "/dev/stdin" : path);
  if (!file || std::filesystem::is_directory(path, ignored))
    return InvalidArgument("cannot read " + path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad())
    return InvalidArgument("cannot read " + path + " beyond byte " + std::to_string(text.size()));
  return text;
}

Status Run(const AdvantagesFlags& flags) {
  if (flags.estimator == "list") {
    std::fputs((flags.markdown ? EstimatorTables() : EstimatorList()).c_str(), stdout);
    return OkStatus();
  }
  if (flags.path.empty())
    return InvalidArgument("advantages: name a JSONL file of groups, or --estimator list");
  std::vector<std::string> overrides = flags.overrides;
  if (!flags.estimator.empty()) overrides.push_back("run.algorithm.advantage=" + flags.estimator);
  BUTTRESS_ASSIGN_OR_RETURN(const AlgorithmConfig options, ParseAlgorithm(overrides));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, Read(flags.path));
  BUTTRESS_ASSIGN_OR_RETURN(const GroupBatch batch, ParseGroups(text, flags.path));
  if (batch.ids.empty())
    return InvalidArgument(flags.path + R"( has no groups; expected {"rewards": [...]} a line)");
  const EstimatorInfo& info = InfoOf(options.advantage);
  if (info.reads_lengths && !batch.has_lengths) {
    return InvalidArgument(flags.path + ": " + std::string(info.name()) +
                           " weighs completions by their tokens; give every group 'lengths'");
  }
  for (const std::string& field : batch.unread) {
    std::fprintf(stderr, "buttress: %s: field '%s' is not read\n", flags.path.c_str(),
                 field.c_str());
  }
  AdvantageInput input = batch.Input();
  input.key = AdvantageKey(flags.seed, flags.step);
  const Result<AdvantageOutput> out = ComputeAdvantages(input, options);
  if (!out.ok()) return out.status().Annotate(flags.path);
  std::fputs(
      (flags.json ? AdvantagesJson(batch, *out, options) : AdvantagesText(batch, *out, options))
          .c_str(),
      stdout);
  return OkStatus();
}

}  // namespace

std::string AdvantagesJson(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options) {
  std::string text;
  for (std::size_t k = 0; k < batch.ids.size(); ++k) {
    const VirtualDecision& decision = out.decisions[k];
    ordered_json json = {{"id", batch.ids[k]},
                         {"advantages", Rows(out.advantages, batch, k)},
                         {"collapse", CollapseClassName(batch.classes[k])},
                         {"near_collapse", NearCollapse(batch, k)},
                         {"virtual",
                          {{"injected", decision.injected},
                           {"weight", decision.weight},
                           {"samples", decision.virtual_samples}}}};
    if (!out.entropy_scale.empty()) json["entropy_scale"] = Rows(out.entropy_scale, batch, k);
    text += JsonLine(json);
  }
  return text + JsonLine({{"summary", SummaryJson(batch, out, options)}});
}

std::string AdvantagesText(const GroupBatch& batch, const AdvantageOutput& out,
                           const AlgorithmConfig& options) {
  std::size_t width = 5;
  for (const auto& id : batch.ids)
    width = std::max(width, std::min<std::size_t>(32, IdText(id).size()));
  std::string text =
      fmt::format("{:<{}}  {:<14}  {:<22}  advantages\n", "group", width, "class", "gate");
  for (std::size_t k = 0; k < batch.ids.size(); ++k) {
    const std::string_view collapse =
        NearCollapse(batch, k) ? "near collapse" : CollapseClassName(batch.classes[k]);
    text += fmt::format("{:<{}.32}  {:<14}  {:<22} ", IdText(batch.ids[k]), width, collapse,
                        GateText(out.decisions[k]));
    for (const double advantage : Rows(out.advantages, batch, k))
      text += advantage == 0 ? "      0 " : fmt::format(" {:+.4f}", advantage);
    const auto scales = Rows(out.entropy_scale, batch, k);
    if (!scales.empty() && scales[0] != 0) text += fmt::format("  and {:+.3g} per nat", scales[0]);
    text += "\n";
  }
  const Summary summary = Summarize(batch, out, options);
  const CollapseCounts& counts = summary.snapshot.step;
  text += fmt::format(
      "\n{} groups: ACR {:.3f} = {} collapsed ({} all correct, {} all wrong, {} other) of {} with "
      "two scorable completions; {} near collapse, {} unscorable\n",
      counts.groups, counts.acr(), counts.constant(), counts.all_correct, counts.all_wrong,
      counts.other_constant, counts.constant() + counts.mixed, summary.near_collapse,
      counts.unscorable);
  text += fmt::format("expected from the prompts' difficulty: {}; by variance below {:g}: {:.3f}\n",
                      ExpectedText(batch, summary.snapshot), options.avspo.variance_threshold,
                      summary.variance_acr);
  text += fmt::format("{}: an advantage in {} groups", ChoiceName(options.advantage),
                      summary.with_advantage);
  if (out.gate) {
    text += fmt::format(
        "; mode {}, gate {}: rate {:.3f} against {:.3f}, {} groups with virtual samples",
        ChoiceName(options.avspo.mode), out.gate->open ? "open" : "closed", out.gate->rate,
        out.gate->threshold, summary.virtual_groups);
  }
  return text + "\n";
}

std::string EstimatorList() {
  std::string text;
  for (const EstimatorInfo& info : Estimators())
    text += fmt::format("{:<22} {:<17} {}\n", info.name(), info.paper, info.formula);
  return text;
}

std::string EstimatorTables() {
  std::string text =
      "| estimator | advantage | paper | constant group | reads besides rewards "
      "|\n|---|---|---|---|---|\n";
  for (const EstimatorInfo& info : Estimators()) {
    const std::string_view number = info.paper.substr(info.paper.find(' ') + 1);
    const char* reads = info.reads_components ? "lengths, components"
                        : info.reads_lengths  ? "lengths"
                                              : "";
    text += fmt::format("| `{}` | `{}` | [{}](https://arxiv.org/abs/{}) | {} | {} |\n", info.name(),
                        info.formula, number, number, info.on_constant_group, reads);
  }
  text +=
      "\n| `avspo.mode` | from | acts on | constant group | expected gradient of what it adds "
      "|\n|---|---|---|---|---|\n";
  for (const AvspoModeInfo& info : AvspoModes()) {
    text += fmt::format("| `{}` | {} | {} | {} | `{}` |\n", info.name(), info.source, info.gate,
                        info.on_constant_group, info.expected_gradient);
  }
  return text;
}

std::function<Status()> AddAdvantages(CLI::App& app) {
  const auto flags = std::make_shared<AdvantagesFlags>();
  app.add_option(
      "file", flags->path,
      "JSONL of groups, one batch: {\"id\", \"rewards\": [...]} and, as an estimator "
      "needs them, \"lengths\", \"outcomes\", \"components\", \"history\"; - is standard "
      "input");
  app.add_option("--estimator", flags->estimator, "name of the estimator; 'list' prints all");
  app.add_option("--set", flags->overrides,
                 "a setting of the estimator: run.algorithm.avspo.mode=ladder (can be repeated)");
  app.add_option("--seed", flags->seed, "seed of the run, for estimators that draw random numbers")
      ->capture_default_str();
  app.add_option("--step", flags->step, "step of the run, for the same")->capture_default_str();
  app.add_flag("--json", flags->json, "one JSON object per group, and a summary object");
  app.add_flag("--markdown", flags->markdown,
               "with --estimator list: the tables of docs/estimators.md");
  return [flags] { return Run(*flags); };
}

}  // namespace buttress
