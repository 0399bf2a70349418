// `buttress replay DIR --set ...`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/understand/replay.h"
#include "lib/experience/collapse.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct ReplayFlags {
  std::string folder;
  std::vector<std::string> overrides;
  bool json = false;
  bool groups = false;
};

struct Comparison {
  CollapseCounts collapse;  // of all groups drawn for the steps
  ReplayTotals trained, replayed;
  double sum_of_differences = 0;  // of the advantages of a completion
  std::int64_t completions = 0;

  void Add(const ReplayedStep& step) {
    collapse.Add(step.plan.collapse.step);
    trained.Add(step.trained.summary);
    replayed.Add(step.replayed.summary);
    for (std::size_t row = 0; row < step.trained.advantages.size(); ++row) {
      sum_of_differences += std::abs(step.trained.advantages[row] - step.replayed.advantages[row]);
      ++completions;
    }
  }

  double mean_difference() const {
    return completions == 0 ? 0.0 : sum_of_differences / static_cast<double>(completions);
  }
};

double Share(std::int64_t part, std::int64_t all) {
  return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

ordered_json SharesJson(const GradientMass& mass) {
  return {{"virtual_samples", mass.share(mass.virtual_samples)},
          {"shaping", mass.share(mass.shaping)},
          {"estimator", mass.share(mass.estimator)}};
}

ordered_json TotalsJson(const ReplayTotals& totals) {
  ordered_json json = {{"acr_effective", totals.acr_effective()},
                       {"groups", totals.groups},
                       {"groups_without_advantage", totals.groups_without_advantage},
                       {"virtual_groups", totals.virtual_groups},
                       {"tokens", totals.tokens},
                       {"zero_advantage_tokens", totals.zero_advantage_tokens},
                       {"gradient_shares", SharesJson(totals.gradient)}};
  if (totals.gated_steps > 0) json["open_gates"] = totals.open_gates;
  return json;
}

std::string StepJson(const ReplayedStep& step) {
  ReplayTotals trained, replayed;
  trained.Add(step.trained.summary);
  replayed.Add(step.replayed.summary);
  const ordered_json json = {{"step", step.plan.step},
                             {"acr", step.plan.collapse.step.acr()},
                             {"trained", TotalsJson(trained)},
                             {"replayed", TotalsJson(replayed)}};
  return json.dump() + "\n";
}

std::string GroupsJson(const ReplayedStep& step) {
  std::string text;
  const Plan& plan = step.plan;
  const std::vector<std::int32_t> offsets = plan.offsets();
  for (std::size_t k = 0; k < plan.groups.size(); ++k) {
    const auto rows = [&](const std::vector<double>& values) {
      return GroupRows(std::span(values), offsets, k);
    };
    const v1::GroupHead& head = *plan.groups[k];
    const ordered_json json = {{"step", plan.step},
                               {"group", head.group_id()},
                               {"collapse", CollapseClassName(ClassOf(head))},
                               {"raw_rewards", RawRewardsOf(head)},
                               {"trained", rows(step.trained.advantages)},
                               {"replayed", rows(step.replayed.advantages)}};
    text += json.dump() + "\n";
  }
  return text;
}

bool Judges(const RunReplay& replay) {
  return replay.selection_mode() == SelectionMode::kGreso ||
         replay.selection_mode() == SelectionMode::kSpeed;
}

ordered_json ClassesJson(const CollapseCounts& counts) {
  return {{"groups", counts.groups},
          {"constant", counts.constant()},
          {"mixed", counts.mixed},
          {"unscorable", counts.unscorable}};
}

std::string SelectionText(const RunReplay& replay, const SelectionReplay& selection) {
  const CollapseCounts& out = selection.passed_over;
  return fmt::format(
      "\nprompt selection {}: {} of {} groups would have been passed over, {} constant and {} "
      "mixed; "
      "ACR of the others {:.4f}\n",
      ChoiceName(replay.selection_mode()), out.groups, out.groups + selection.drawn.groups,
      out.constant(), out.mixed, selection.drawn.acr());
}

std::string SummaryJson(const RunReplay& replay, const Comparison& sums,
                        const SelectionReplay& selection) {
  ordered_json json;
  json["summary"] = {
      {"run", replay.run_name()},
      {"steps", sums.trained.steps},
      {"plans_without_a_group", replay.plans() - static_cast<std::size_t>(sums.trained.steps)},
      {"acr", sums.collapse.acr()},
      {"mean_difference", sums.mean_difference()},
      {"trained", TotalsJson(sums.trained)},
      {"replayed", TotalsJson(sums.replayed)}};
  if (Judges(replay)) {
    json["summary"]["selection"] = {{"mode", ChoiceName(replay.selection_mode())},
                                    {"drawn", ClassesJson(selection.drawn)},
                                    {"passed_over", ClassesJson(selection.passed_over)},
                                    {"acr", selection.drawn.acr()}};
  }
  return json.dump() + "\n";
}

std::string NameOf(const AlgorithmConfig& options) {
  std::string name(ChoiceName(options.advantage));
  if (options.advantage == Estimator::kAvspo)
    name += fmt::format(" {}", ChoiceName(options.avspo.mode));
  return name;
}

std::string Row(std::string_view label, std::string_view trained, std::string_view replayed) {
  return fmt::format("{:<44} {:>16} {:>16}\n", label, trained, replayed);
}

std::string GateText(const ReplayTotals& totals) {
  return totals.gated_steps == 0 ? "no gate"
                                 : fmt::format("{} of {}", totals.open_gates, totals.gated_steps);
}

std::string SummaryText(const RunReplay& replay, const Comparison& sums,
                        const SelectionReplay& selection) {
  const ReplayTotals &a = sums.trained, &b = sums.replayed;
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  const auto shares = [&](const char* label, double GradientMass::*part) {
    return Row(label, percent(a.gradient.share(a.gradient.*part)),
               percent(b.gradient.share(b.gradient.*part)));
  };
  std::string text = fmt::format(
      "run {}: {} steps, {} groups in their batches, ACR {:.4f} of {} "
      "drawn groups\n\n",
      replay.run_name(), a.steps, a.groups, sums.collapse.acr(), sums.collapse.groups);
  text += Row("", "as trained", "replayed");
  text += Row("estimator", NameOf(replay.trained_settings()), NameOf(replay.replayed_settings()));
  text += Row("effective ACR (every advantage is 0)", fmt::format("{:.4f}", a.acr_effective()),
              fmt::format("{:.4f}", b.acr_effective()));
  text += Row("trained tokens with an advantage of 0",
              percent(Share(a.zero_advantage_tokens, a.tokens)),
              percent(Share(b.zero_advantage_tokens, b.tokens)));
  text += Row("groups with virtual samples", fmt::format("{}", a.virtual_groups),
              fmt::format("{}", b.virtual_groups));
  text += Row("steps with an open gate", GateText(a), GateText(b));
  text += "gradient of the policy loss from constant groups, by\n";
  text += shares("  virtual samples", &GradientMass::virtual_samples);
  text += shares("  shaping", &GradientMass::shaping);
  text += shares("  the estimator", &GradientMass::estimator);
  text += fmt::format("\nadvantages differ by {:.4f} on average over {} completions\n",
                      sums.mean_difference(), sums.completions);
  if (Judges(replay)) text += SelectionText(replay, selection);
  text +=
      "The completions are those of the run: a policy trained otherwise would have sampled "
      "others\n";
  return text;
}

Status Run(const ReplayFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<RunReplay> replay,
                            RunReplay::Open(flags.folder, flags.overrides));
  Comparison sums;
  ReplayedStep step;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool more, replay->Next(step));
    if (!more) break;
    sums.Add(step);
    if (flags.groups) std::fputs(GroupsJson(step).c_str(), stdout);
    if (flags.json) std::fputs(StepJson(step).c_str(), stdout);
  }
  if (sums.trained.steps == 0)
    return FailedPrecondition(flags.folder + " holds no step that could be trained yet");
  SelectionReplay selection;
  if (Judges(*replay)) {
    BUTTRESS_ASSIGN_OR_RETURN(selection, replay->Selection());
  }
  const bool json = flags.json || flags.groups;
  const std::string text =
      json ? SummaryJson(*replay, sums, selection) : SummaryText(*replay, sums, selection);
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

}  // namespace

std::function<Status()> AddReplay(CLI::App& app) {
  const auto flags = std::make_shared<ReplayFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  app.add_option("--set", flags->overrides,
                 "a setting of the estimator or of the prompt selection, for example "
                 "run.algorithm.advantage=avspo (can be repeated); "
                 "without any, the replay repeats the run");
  app.add_flag("--json", flags->json, "print one JSON object per step, then {\"summary\": ...}");
  app.add_flag("--groups", flags->groups,
               "print one JSON object per group with both advantages of every completion");
  return [flags] { return Run(*flags); };
}

}  // namespace buttress
