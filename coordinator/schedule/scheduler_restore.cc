// Restores a scheduler from the ledger's rows, gives up groups whose payloads or rows are damaged,
// and reports its status.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/schedule/scheduler.h"
#include "lib/rl/collapse/draw_control.h"
#include "lib/rl/staleness.h"

namespace buttress {
namespace {

Status Contradiction(const std::string& what) {
  return DataLoss(
      fmt::format("the ledger contradicts itself: {}; restore ledger.db from a copy, or "
                  "start a new run folder",
                  what));
}

RunRow NewRun(const SchedulerOptions& options) {
  RunRow run;
  run.run_id = options.new_run_id;
  run.run_name = options.run_name;
  run.config_sha256 = options.config_sha256;
  run.sources = options.sources;
  return run;
}

// The datasets are the ones that the run draws from.
Status CheckSources(const std::vector<SourceRow>& drawn, const std::vector<SourceRow>& now) {
  if (!std::ranges::equal(drawn, now, {}, &SourceRow::name, &SourceRow::name))
    return FailedPrecondition(
        "the run draws from other sources than run.data.sources names; put them back, or give the "
        "run a new folder (local.out)");
  for (std::size_t i = 0; i < now.size(); ++i) {
    const DatasetIdentity &old = drawn[i].dataset, &is = now[i].dataset;
    if (old == is) continue;
    const std::string key =
        now[i].name.empty() ? "run.data.prompts" : "run.data.sources." + now[i].name + ".prompts";
    return FailedPrecondition(fmt::format(
        "the run draws from a dataset of {} rows with SHA-256 {}; {} now names one of {} rows with "
        "{}; put the old dataset back, or give the run a new folder (local.out)",
        old.rows, old.sha256, key, is.rows, is.sha256));
  }
  return OkStatus();
}

Status CheckGroups(const LedgerSnapshot& snapshot) {
  for (const auto& [id, group] : snapshot.groups) {
    using enum GroupState;
    const std::string name =
        "group " + std::to_string(id) + " is " + std::string(GroupStateName(group.state));
    const bool planned = group.state == kBatched || group.state == kTrained;
    if ((planned || group.state == kReady) != snapshot.accepted.contains(id)) {
      return Contradiction(
          name + (planned ? " but its content is missing" : " but has content or lacks it"));
    }
    if (planned != snapshot.plans.contains(group.step))
      return Contradiction(name + " at step " + std::to_string(group.step));
    if (group.state == kLeased && !snapshot.announced)
      return Contradiction(name + " before any version was announced");
    if (id >= snapshot.run->next_group_id)
      return Contradiction(name + " but the run has not admitted it");
  }
  return OkStatus();
}

Status CheckPlans(const LedgerSnapshot& snapshot, std::int64_t prompts) {
  for (const auto& [step, plan] : snapshot.plans) {
    const std::string name = "the plan of step " + std::to_string(step);
    if (static_cast<std::int64_t>(plan.group_ids.size()) != prompts)
      return Contradiction(name + " is incomplete");
    for (const std::uint64_t id : plan.group_ids) {
      if (id == 0) continue;  // an operator dropped the group that was here
      const auto group = snapshot.groups.find(id);
      if (group == snapshot.groups.end() || group->second.step != step) {
        return Contradiction(fmt::format("{} names group {}, which is not in it", name, id));
      }
    }
  }
  return OkStatus();
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, const LedgerSnapshot& snapshot)
    : options_(options),
      run_(snapshot.run ? *snapshot.run : NewRun(options)),
      rules_{options.prompts, run_.ordered_max_age.value_or(options.max_age), options.window},
      groups_(snapshot),
      leases_(options.lease_ms, options.lease_limit_ms),
      workers_(options.lease_ms, snapshot),
      tokens_(snapshot.worker_tokens),
      plans_(snapshot.plans),
      history_(snapshot.histories),
      records_(snapshot),
      skipped_(snapshot.skipped),
      replaced_(snapshot.replaced),
      collapse_(snapshot.collapse, snapshot.difficulty, run_.acr_ema, snapshot.recent),
      announced_(snapshot.announced),
      stop_requested_(snapshot.early_end.has_value()),
      learner_knows_stop_(stop_requested_),
      early_end_(snapshot.early_end) {
  for (const auto& [step, plan] : plans_) {
    missing_ += Missing(plan);
    drawn_.Add(plan.drawn, 1);
  }
  for (const LearnerRow& learner : snapshot.learners) {
    lineage_.Start(learner.learner_epoch, learner.start_step);
    learner_secrets_[learner.learner_epoch] = learner.secret_sha256;
  }
  for (const PolicyVersion& version : snapshot.versions)
    digests_[{version.learner_epoch, version.step}] = version.digest;
  for (const CheckpointRow& row : snapshot.checkpoints)
    checkpoints_[{row.learner_epoch, row.step}] = row.digest;
  if (snapshot.control) {
    draw_ = *snapshot.control;
    draw_.factor = NextDrawFactor(options_.control, draw_, options_.replace_cap / options_.prompts);
  }
}

Result<Scheduler> Scheduler::Restore(const SchedulerOptions& options,
                                     const LedgerSnapshot& snapshot, std::int64_t now_ms,
                                     LedgerChanges& out) {
  if (snapshot.run) {
    if (snapshot.run->config_sha256 != options.config_sha256) {
      return FailedPrecondition(
          fmt::format("the ledger belongs to run '{}' with configuration {}, this coordinator has "
                      "run '{}' with "
                      "{}; start it with the same `run` half, or give it a new folder (local.out)",
                      snapshot.run->run_name, snapshot.run->config_sha256, options.run_name,
                      options.config_sha256));
    }
    BUTTRESS_RETURN_IF_ERROR(CheckSources(snapshot.run->sources, options.sources));
    if (options.steps < snapshot.run->planned_step) {
      return FailedPrecondition(fmt::format(
          "run.steps = {} is less than the {} steps that are planned already; set it to {} or more",
          options.steps, snapshot.run->planned_step, snapshot.run->planned_step));
    }
    BUTTRESS_RETURN_IF_ERROR(CheckGroups(snapshot));
    BUTTRESS_RETURN_IF_ERROR(CheckPlans(snapshot, options.prompts));
  }
  Scheduler scheduler(options, snapshot);
  ++scheduler.run_.coordinator_epoch;
  scheduler.workers_.NoteStart(options.start_id, scheduler.run_.coordinator_epoch);
  out.starts.push_back({scheduler.run_.coordinator_epoch, options.start_id});
  // run.steps may have changed since the last start, in either direction.
  scheduler.run_.finished =
      snapshot.run && scheduler.run_.settled_step == options.steps && options.steps > 0;
  // Where an operator has given up a group of a plan, another one takes its place, and is trained.
  if (snapshot.run && scheduler.run_.committed_step == options.steps && scheduler.missing_ == 0)
    scheduler.EndRun(out);
  for (const std::uint64_t id : scheduler.groups_.InState(GroupState::kLeased)) {
    const GroupRow& group = *scheduler.groups_.Find(id);
    scheduler.leases_.Grant({{id, group.lease_epoch}, group.worker_id, group.incarnation, now_ms});
  }
  out.run = scheduler.run_;
  return scheduler;
}

SchedulerStatus Scheduler::GetStatus() const {
  SchedulerStatus status;
  status.run = run_;
  status.total_steps = options_.steps;
  if (announced_) status.announced = announced_->version;
  status.groups = groups_.counts();
  status.dropped = groups_.dropped();
  status.skipped = skipped_;
  for (const SourceRow& source : run_.sources) status.skipped.try_emplace(source.name);
  if (options_.selection.mode == SelectionMode::kGreso) status.greso = greso();
  status.active_slots = groups_.active_slots();
  status.slot_budget = ActiveSlotBudget(options_.prompts, rules_.max_age);
  status.max_age = rules_.max_age;
  status.kept_tokens = partials_.tokens();
  status.collapse = collapse_.total();
  status.collapse_by_source = collapse_.by_source();
  status.drawn_length = drawn_.mean();
  status.planned_length = groups_.planned().mean();
  groups_.AddTokensTo(status.tokens);
  tokens_.AddTo(status.tokens, [this](const std::string& id, std::uint64_t incarnation) {
    const auto worker = workers_.known().find(id);
    return worker != workers_.known().end() && worker->second.incarnation == incarnation;
  });
  return status;
}

bool Scheduler::SameState(const Scheduler& other) const {
  RunRow run = run_;
  run.coordinator_epoch = other.run_.coordinator_epoch;
  return run == other.run_ && groups_ == other.groups_ && plans_ == other.plans_ &&
         drawn_ == other.drawn_ && history_ == other.history_ &&
         (!selects_prompts() || records_.SameOf(groups_.rows(), other.records_)) &&
         skipped_ == other.skipped_ && replaced_ == other.replaced_ && lineage_ == other.lineage_ &&
         learner_secrets_ == other.learner_secrets_ && digests_ == other.digests_ &&
         checkpoints_ == other.checkpoints_ && collapse_ == other.collapse_ &&
         announced_ == other.announced_ && workers_.orders() == other.workers_.orders() &&
         early_end_ == other.early_end_ && draw_ == other.draw_;
}

Status Scheduler::GiveUpDamaged(std::uint64_t learner_epoch, std::uint64_t step,
                                std::uint64_t group_id, const std::string& why,
                                LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  const GroupRow* const group = groups_.Find(group_id);
  if (group == nullptr || group->step != step) return OkStatus();
  if (group->state != GroupState::kBatched) return DataLoss(why);
  if (options_.deterministic) {
    return DataLoss(fmt::format(
        "{}; run.deterministic is set: with another group in its place the run could not be "
        "repeated, so that `buttress ledger drop` is refused as well; put the file back from a "
        "copy, or restore a backup",
        why));
  }
  plans_.at(step).group_ids[group->position] = 0;
  ++missing_;
  out.drops.push_back({group_id, step, group->position, 0, why});
  groups_.Drop(group_id, DropReason::kDamaged, out);
  return OkStatus();
}

}  // namespace buttress
