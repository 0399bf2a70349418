#include "cli/understand/replay.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/understand/turn_replay.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"
#include "lib/experience/collapse.h"
#include "lib/experience/episodes.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {
namespace {

Status CheckOverrides(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    const std::string_view key = std::string_view(text).substr(0, text.find('='));
    if (key == "run.algorithm.avspo.prior.decay") {
      return InvalidArgument(fmt::format(
          "--set {}: the ledger keeps the moving averages of the run as they were, so a "
          "replay has its decay",
          text));
    }
    if (key.starts_with("run.algorithm.") || key.starts_with("run.data.selection.") ||
        key == "run.batch.zero_variance" || key == "run.batch.denominator" ||
        key == "run.env.credit")
      continue;
    return InvalidArgument(
        fmt::format("--set {}: a replay changes run.algorithm.*, run.data.selection.*, "
                    "run.env.credit and run.batch.zero_variance or denominator; every other "
                    "setting would have led to other completions",
                    text));
  }
  return OkStatus();
}

// The placement on ranks does not change what a replay reports.
AssignmentOptions OptionsOf(const RunConfig& config) {
  return {config.run, config.local.learner.micro_batch_tokens, 1};
}

Result<ReplayedBatch> Compute(const Plan& plan, const AssignmentOptions& options, GateState& gate) {
  ReplayedBatch batch;
  BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment, AssignStep(plan, options, gate, batch.summary));
  batch.advantages = std::move(assignment.advantages);
  gate = batch.summary.next_gate;
  return batch;
}

void AddMass(const GradientMass& of_step, GradientMass& sum) {
  sum.all += of_step.all;
  sum.virtual_samples += of_step.virtual_samples;
  sum.shaping += of_step.shaping;
  sum.estimator += of_step.estimator;
}

using nlohmann::ordered_json;

struct ReplayFlags {
  std::string folder;
  std::vector<std::string> overrides;
  bool json = false;
  bool groups = false;
  bool episodes = false;
  std::string model;
  std::optional<std::uint64_t> step;
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
  return JsonLine({{"step", step.plan.step},
                   {"acr", step.plan.collapse.step.acr()},
                   {"trained", TotalsJson(trained)},
                   {"replayed", TotalsJson(replayed)}});
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
    text += JsonLine({{"step", plan.step},
                      {"group", head.group_id()},
                      {"collapse", CollapseClassName(ClassOf(head))},
                      {"deciding_rewards", RawRewardsOf(head)},
                      {"trained", rows(step.trained.advantages)},
                      {"replayed", rows(step.replayed.advantages)}});
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
  return JsonLine(json);
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
  if (flags.episodes) return ReplayTurns({flags.folder, flags.model, flags.step, flags.json});
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

void ReplayTotals::Add(const BatchSummary& summary) {
  ++steps;
  groups += summary.plan_groups;
  groups_without_advantage += summary.groups_without_advantage;
  virtual_groups += static_cast<std::int64_t>(summary.virtual_groups);
  tokens += static_cast<std::int64_t>(summary.tokens);
  zero_advantage_tokens += summary.zero_advantage_tokens;
  gated_steps += std::isfinite(summary.gate_rate) ? 1 : 0;
  open_gates += summary.gate_open == 1 ? 1 : 0;
  AddMass(summary.gradient, gradient);
}

double ReplayTotals::acr_effective() const {
  return groups == 0 ? 0.0
                     : static_cast<double>(groups_without_advantage) / static_cast<double>(groups);
}

Result<std::unique_ptr<RunReplay>> RunReplay::Open(const std::string& folder,
                                                   const std::vector<std::string>& overrides) {
  BUTTRESS_RETURN_IF_ERROR(CheckOverrides(overrides));
  std::unique_ptr<RunReplay> replay(new RunReplay());
  BUTTRESS_ASSIGN_OR_RETURN(replay->reader_, LedgerReader::Open(JoinPath(folder, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, replay->reader_->Run());
  if (!run) return FailedPrecondition(folder + ": the coordinator has not started the run yet");
  const std::string path = StoredConfigPath(folder);
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig trained, LoadRunConfig(path, {}));
  if (RunIdentityHash(trained) != run->config_sha256) {
    return FailedPrecondition(fmt::format(
        "{} is not the configuration of the run {} in this folder, so its settings are unknown; "
        "put back the file that the coordinator wrote",
        path, run->run_name));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig replayed, LoadRunConfig(path, overrides));
  if (replayed.run.data.selection.mode == SelectionMode::kMopps &&
      trained.run.data.selection.mode != SelectionMode::kMopps) {
    return InvalidArgument(
        "run.data.selection.mode: mopps chooses among prompts of which the run drew one or none, "
        "so "
        "it cannot be replayed; use greso or speed");
  }
  replay->run_name_ = run->run_name;
  replay->selection_ = {replayed.run.data.selection, replayed.run.seed, replayed.run.batch.prompts};
  replay->trained_ = OptionsOf(trained);
  replay->replayed_ = OptionsOf(replayed);
  BUTTRESS_ASSIGN_OR_RETURN(replay->plans_, replay->reader_->Plans());
  replay->next_ = replay->plans_.begin();
  return replay;
}

Result<Plan> RunReplay::ReadPlan(const PlanRow& row) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records,
                            reader_->GroupsById(row.group_ids));
  Plan plan{row.step, {}, row.collapse, row.drawn};
  for (const std::uint64_t id : row.group_ids) {
    const auto found = std::ranges::find(
        records, id, [](const GroupRecord& record) { return record.group.group_id; });
    if (found == records.end() || !found->accepted)
      return DataLoss(
          fmt::format("step {}: the ledger lacks group {}; `buttress ledger audit` "
                      "lists what is missing",
                      row.step, id));
    plan.groups.push_back(found->accepted->head);
  }
  return plan;
}

Result<bool> RunReplay::Next(ReplayedStep& step) {
  const auto is_whole = [](const PlanRow& row) {
    return std::ranges::find(row.group_ids, std::uint64_t{0}) == row.group_ids.end();
  };
  while (next_ != plans_.end() && !is_whole(next_->second)) ++next_;
  if (next_ == plans_.end()) return false;
  const PlanRow& row = next_->second;
  ++next_;
  BUTTRESS_ASSIGN_OR_RETURN(step.plan, ReadPlan(row));
  const auto annotate = [&](const Status& status) {
    return status.Annotate(fmt::format("step {}", row.step));
  };
  Result<ReplayedBatch> trained = Compute(step.plan, trained_, trained_gate_);
  if (!trained.ok()) return annotate(trained.status());
  Result<ReplayedBatch> replayed = Compute(step.plan, replayed_, replayed_gate_);
  if (!replayed.ok()) return annotate(replayed.status());
  step.trained = *std::move(trained);
  step.replayed = *std::move(replayed);
  return true;
}

Result<SelectionReplay> RunReplay::Selection() {
  const SelectionConfig& selection = selection_.selection;
  SelectionReplay replay;
  GresoBases bases{selection.greso.keep_easy, selection.greso.keep_hard};
  std::map<std::uint64_t, PromptRecord> records;  // by row, of the groups that stay
  CollapseCounts of_step;
  const auto visit = [&](const GroupRecord& record) {
    if (!record.accepted) return;
    const v1::GroupHead& head = *record.accepted->head;
    const PromptPlace place{record.group.prompt.pass, record.group.prompt.row};
    const auto history = records.find(place.row);
    if (history != records.end() &&
        PassedOver(selection, selection_.seed, place, history->second, bases)) {
      replay.passed_over.Add(ClassOf(head));
      return;
    }
    replay.drawn.Add(ClassOf(head));
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    AddGroup(raw_rewards, outcomes, ClassOf(head), place.pass, selection.mopps.decay,
             records[place.row]);
    of_step.Add(ClassOf(head));
    if (of_step.groups < selection_.prompts) return;
    bases = AdaptGreso(bases, of_step, selection.greso.target);
    of_step = {};
  };
  BUTTRESS_RETURN_IF_ERROR(reader_->ForEachGroup(visit));
  return replay;
}

std::function<Status()> AddReplay(CLI::App& app) {
  const auto flags = std::make_shared<ReplayFlags>();
  app.add_option("dir", flags->folder, "run folder; the run may be running")->required();
  auto* const set =
      app.add_option("--set", flags->overrides,
                     "a setting of the estimator or of the prompt selection, for example "
                     "run.algorithm.advantage=avspo (can be repeated); "
                     "without any, the replay repeats the run");
  app.add_flag("--json", flags->json,
               "print one JSON object per step, or turn of --episodes, then {\"summary\": ...}");
  auto* const groups =
      app.add_flag("--groups", flags->groups,
                   "print one JSON object per group with both advantages of every completion");
  auto* const episodes =
      app.add_flag("--episodes", flags->episodes,
                   "sample the answers of episodes once more, behind what tools and users are "
                   "recorded to have said, and compare their tokens; no tool is called");
  episodes->excludes(set)->excludes(groups);
  app.add_option("--model", flags->model,
                 "with --episodes: the model folder that answers [the start model, for the answers "
                 "that it sampled]")
      ->needs(episodes);
  app.add_option("--step", flags->step, "with --episodes: the groups drawn for this step [all]")
      ->needs(episodes);
  return [flags] { return Run(*flags); };
}

}  // namespace buttress
