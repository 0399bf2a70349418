#include "cli/understand/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"
#include "lib/rl/passed_over.h"

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
        key == "run.batch.zero_variance")
      continue;
    return InvalidArgument(
        fmt::format("--set {}: a replay changes run.algorithm.*, run.data.selection.* and "
                    "run.batch.zero_variance; every other setting would have led to other "
                    "completions",
                    text));
  }
  return OkStatus();
}

// The placement on ranks does not change what a replay reports.
AssignmentOptions OptionsOf(const RunConfig& config) {
  return AssignmentOptions::From(config.run, config.local.learner, 1);
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

}  // namespace

void ReplayTotals::Add(const BatchSummary& summary) {
  ++steps;
  groups += summary.groups;
  groups_without_advantage += summary.groups_without_advantage;
  virtual_groups += summary.virtual_groups;
  tokens += summary.tokens;
  zero_advantage_tokens += summary.zero_advantage_tokens;
  gated_steps += summary.gate ? 1 : 0;
  open_gates += summary.gate && summary.gate->open ? 1 : 0;
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
    if (found == records.end() || !found->accepted || found->accepted->damaged)
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
    if (!record.accepted || record.accepted->damaged) return;
    const v1::GroupHead& head = *record.accepted->head;
    const PromptPlace place{record.group.prompt.pass, record.group.prompt.row};
    const auto history = records.find(place.row);
    if (history != records.end() &&
        PassedOver(selection, selection_.seed, place, history->second, bases)) {
      replay.passed_over.Add(ClassOf(head));
      return;
    }
    replay.drawn.Add(ClassOf(head));
    AddGroup(RawRewardsOf(head), OutcomesOf(head), ClassOf(head), place.pass, selection.mopps.decay,
             records[place.row]);
    of_step.Add(ClassOf(head));
    if (of_step.groups < selection_.prompts) return;
    bases = AdaptGreso(bases, of_step, selection.greso.target);
    of_step = {};
  };
  BUTTRESS_RETURN_IF_ERROR(reader_->ForEachGroup(visit));
  return replay;
}

}  // namespace buttress
