// The learner's side of the scheduler: lineage, plans, commits, versions, checkpoints.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "coordinator/schedule/scheduler.h"
#include "lib/base/net/secret.h"
#include "lib/base/report/check.h"
#include "lib/base/text/digest.h"
#include "lib/experience/episodes.h"
#include "lib/rl/collapse/draw_control.h"

namespace buttress {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

}  // namespace

Status Scheduler::CheckEpoch(std::uint64_t learner_epoch) const {
  if (learner_epoch == run_.learner_epoch && learner_epoch != 0) return OkStatus();
  return FailedPrecondition(
      fmt::format("learner epoch {} has ended, the present one is {}; another learner job has "
                  "registered since: this process must exit",
                  learner_epoch, run_.learner_epoch));
}

Status Scheduler::CheckLearner(std::uint64_t learner_epoch, std::string_view secret) const {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  // An operator who drops a group ends the learner's epoch without another job.
  const auto job = learner_secrets_.find(learner_epoch);
  if (job != learner_secrets_.end() && IsSecretOf(secret, job->second)) return OkStatus();
  return {
      StatusCode::kPermissionDenied,
      fmt::format("the call names learner epoch {} but not the secret that RegisterLearner gave "
                  "to its job; only that job may plan, fetch, commit, announce and checkpoint: "
                  "start a learner, which registers itself",
                  learner_epoch)};
}

Status Scheduler::CheckCheckpoint(const PolicyVersion& checkpoint) const {
  const std::string named =
      fmt::format("the learner starts from checkpoint {} (epoch:step), but ", ToString(checkpoint));
  if (checkpoint.step < run_.settled_step) {
    return DataLoss(fmt::format(
        "{}step {} is settled and its groups may be deleted; put the checkpoint of step {} or {} "
        "back from a copy, or restore a backup",
        named, run_.settled_step, run_.checkpoint_step, run_.settled_step));
  }
  if (lineage_.Abandoned(checkpoint)) {
    return Aborted(
        named +
        "a later learner started from one before it; the learner takes the checkpoint before it");
  }
  if (checkpoint.step > run_.committed_step || checkpoint.learner_epoch > run_.learner_epoch) {
    return DataLoss(fmt::format(
        "{}the ledger has committed no more than step {} in epoch {}: ledger.db is older than the "
        "checkpoint, or of another run; put back the ledger and the payloads that were copied with "
        "the checkpoint or later; or, if they are lost, start a new run from the checkpoint with "
        "`buttress launch --from`",
        named, run_.committed_step, run_.learner_epoch));
  }
  for (const auto& [step, plan] : plans_) {
    if (step > checkpoint.step || Missing(plan) == 0) continue;
    return Aborted(fmt::format(
        "{}a group of step {} was dropped, which is trained into it; the learner takes a "
        "checkpoint before that step",
        named, step));
  }
  return OkStatus();
}

Status Scheduler::CheckCheckpointOrigin(const PolicyVersion& checkpoint, const std::string& run_id,
                                        const std::string& learner_sha256) const {
  if (checkpoint.step == 0) return OkStatus();
  const std::string fix =
      "; put the checkpoints of this run back, or start the learner with the folder (local.out) of "
      "the run that it belongs to";
  if (run_id != run_.run_id) {
    return DataLoss(fmt::format(
        "the learner's checkpoint of step {} is of run {}, and the coordinator's ledger is of run "
        "{}{}",
        checkpoint.step, run_id, run_.run_id, fix));
  }
  const auto reported = checkpoints_.find({checkpoint.learner_epoch, checkpoint.step});
  if (reported != checkpoints_.end() && reported->second != checkpoint.digest) {
    return DataLoss(
        fmt::format("checkpoint {} (epoch:step) has the SHA-256 {}, and was reported with {}: it "
                    "was changed, or is of a copy of the run{}",
                    ToString(checkpoint), ToHex(checkpoint.digest), ToHex(reported->second), fix));
  }
  const auto writer = learner_secrets_.find(checkpoint.learner_epoch);
  if (writer != learner_secrets_.end() && writer->second != learner_sha256) {
    return DataLoss(fmt::format(
        "checkpoint {} (epoch:step) was written by another learner than the one that this ledger "
        "knows under that epoch: it is of a copy of the run{}",
        ToString(checkpoint), fix));
  }
  return OkStatus();
}

Result<LearnerStart> Scheduler::RegisterLearner(const PolicyVersion& checkpoint,
                                                std::uint32_t world_size,
                                                const std::string& secret_sha256,
                                                LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckCheckpoint(checkpoint));
  // The row of the early end counts no more, because it has the epoch of an earlier learner.
  if (early_end_) stop_requested_ = learner_knows_stop_ = false;
  early_end_.reset();
  ++run_.learner_epoch;
  run_.committed_step = checkpoint.step;
  lineage_.Start(run_.learner_epoch, checkpoint.step);
  learner_secrets_[run_.learner_epoch] = secret_sha256;
  out.learners.push_back(
      {run_.learner_epoch, checkpoint.step, checkpoint.digest, world_size, secret_sha256});

  MoveCheckpoint(checkpoint.step, out);
  for (const GroupState state : {GroupState::kBatched, GroupState::kTrained}) {
    for (const std::uint64_t id : groups_.InState(state)) {
      if (groups_.Find(id)->step <= checkpoint.step) continue;
      if (state == GroupState::kBatched && !groups_.Find(id)->holds_slot) continue;
      groups_.Move(id, GroupState::kBatched, out,
                   [](GroupRow& group) { group.holds_slot = false; });
    }
  }
  Abandon(out);
  out.run = run_;
  return LearnerStart{run_.learner_epoch, checkpoint.step + 1};
}

// Lets groups that were leased or sampled after the checkpoint be sampled again; planned groups
// keep their plan.
void Scheduler::Abandon(LedgerChanges& out) {
  for (const std::uint64_t id : groups_.InState(GroupState::kLeased)) {
    if (!lineage_.Abandoned(groups_.Find(id)->granted_version)) continue;
    for (const HeldLease& lease : leases_.OfGroup(id)) EndLease(lease, LeaseEnd::kNoFault, 1, out);
  }
  std::vector<std::uint64_t> abandoned;
  for (const std::uint64_t id : groups_.InState(GroupState::kReady)) {
    if (AnyAbandoned(*groups_.accepted(id).head)) abandoned.push_back(id);
  }
  // What the results of a prompt add up to is taken back from the newest on.
  std::ranges::sort(abandoned, std::ranges::greater(),
                    [this](std::uint64_t id) { return groups_.accepted(id).place(); });
  for (const std::uint64_t id : abandoned) UndoSubmit(id, out);
}

void Scheduler::UndoSubmit(std::uint64_t group_id, LedgerChanges& out) {
  const AcceptedGroup& accepted = groups_.accepted(group_id);
  const std::uint64_t row = groups_.Find(group_id)->prompt.row;
  const PromptHistory before = HistoryOf(*accepted.head), own = OwnHistoryOf(*accepted.head);
  PromptHistory& history = history_[row];
  if (history.scored == before.scored + own.scored) {
    history = before;
  } else {
    history.correct -= own.correct;
    history.scored -= own.scored;
  }
  out.histories[row] = history;
  out.collapse[accepted.head->source()] = collapse_.Uncount(accepted);
  if (selects_prompts()) TakeRecordBack(*groups_.Find(group_id), out);
  groups_.SampleAgain(group_id, out);
}

// The record becomes what it would be without the group: that before it, with the groups of the
// prompt that came in later, whether they have ended or not.
void Scheduler::TakeRecordBack(const GroupRow& group, LedgerChanges& out) {
  struct Later {
    const AcceptedGroup* row;
    std::uint64_t pass;
  };

  const AcceptedGroup& accepted = groups_.accepted(group.group_id);
  std::map<std::pair<PayloadEnd, std::uint64_t>, Later> later;
  const auto add = [&](const DrawnPrompt& prompt, const AcceptedGroup& row) {
    if (prompt.row == group.prompt.row && row.place() > accepted.place())
      later.emplace(row.place(), Later{&row, prompt.pass});
  };
  for (const auto& [id, row] : groups_.accepted()) add(groups_.Find(id)->prompt, row);
  for (const auto& [id, ended] : groups_.followers()) add(ended.group.prompt, ended.accepted);
  PromptRecord record = RecordOf(*accepted.head);
  for (const auto& [place, next] : later) {
    const std::uint64_t id = next.row->id();
    groups_.SetRecord(id, record, out);
    if (const auto replaced = replaced_.find(id); replaced != replaced_.end())
      replaced->second.head = next.row->head;
    const v1::GroupHead& head = *next.row->head;
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    AddGroup(raw_rewards, outcomes, ClassOf(head), next.pass, options_.selection.mopps.decay,
             record);
  }
  records_.Set(group.prompt.row, record, out);
}

Result<PlanReply> Scheduler::PlanBatch(std::uint64_t learner_epoch, std::uint64_t step,
                                       LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  PlanReply reply;
  if (step > options_.steps) {
    reply.finished = true;
    return reply;
  }
  if (stop_requested_) {
    learner_knows_stop_ = true;
    reply.stopping = true;
    return reply;
  }
  if (step <= run_.settled_step || step > run_.planned_step + 1) {
    return FailedPrecondition(fmt::format(
        "step {} cannot be planned: steps up to {} are settled and the next new one is {}", step,
        run_.settled_step, run_.planned_step + 1));
  }
  if (!plans_.contains(step)) {
    const std::optional<std::vector<std::uint64_t>> ids = ChooseGroups(step, rules_, out);
    if (!ids) return reply;
    WritePlan(step, *ids, out);
  } else if (!FillPlan(step, out)) {
    return reply;
  }
  reply.plan = ReadPlan(plans_.at(step));
  return reply;
}

// Drops what is too old for `step`, and returns the groups of its plan if there are enough. The
// line is walked only if a group is too old or if a plan follows, so a learner may ask at any time.
std::optional<std::vector<std::uint64_t>> Scheduler::ChooseGroups(std::uint64_t step,
                                                                  const BatchRules& rules,
                                                                  LedgerChanges& out) {
  const auto oldest = groups_.oldest_ready_step();
  if (oldest && IsTooOld(*oldest, step, rules_)) {
    for (const std::uint64_t id : TooOld(Line(kAll), step, rules_))
      groups_.Drop(id, DropReason::kStale, out);
  }
  if (!HasBatch(rules)) return std::nullopt;
  return AssembleBatch(Line(rules.prompts), step, rules);
}

// Returns whether AssembleBatch would choose groups. All groups before the first one that is not
// ready are, and that one alone decides how many younger ones the window allows.
bool Scheduler::HasBatch(const BatchRules& rules) const {
  if (groups_.counts()[static_cast<std::size_t>(GroupState::kReady)] < rules.prompts) return false;
  const auto first = groups_.first_unready();
  if (!first) return true;
  const std::int64_t younger =
      rules.prompts - static_cast<std::int64_t>(groups_.line().order_of_key(*first));
  return younger <= 0 || groups_.Find(*first)->passed + younger <= rules.window - 1;
}

std::vector<BatchCandidate> Scheduler::Line(std::int64_t ready) const {
  std::vector<BatchCandidate> line;
  for (const std::uint64_t id : groups_.line()) {
    if (ready == 0) break;
    const GroupRow& group = *groups_.Find(id);
    const bool is_ready = group.state == GroupState::kReady;
    ready -= is_ready ? 1 : 0;
    line.push_back({id, is_ready, is_ready ? groups_.OldestStep(group) : 0, group.passed});
  }
  return line;
}

std::int64_t Scheduler::Missing(const PlanRow& plan) {
  return std::ranges::count(plan.group_ids, std::uint64_t{0});
}

// Puts groups in the places of those that were given up; returns false while too few are ready.
bool Scheduler::FillPlan(std::uint64_t step, LedgerChanges& out) {
  PlanRow& plan = plans_.at(step);
  BatchRules rules = rules_;
  rules.prompts = Missing(plan);
  if (rules.prompts == 0) return true;
  const std::optional<std::vector<std::uint64_t>> ids = ChooseGroups(step, rules, out);
  if (!ids) return false;
  auto next = ids->begin();
  for (std::size_t i = 0; i < plan.group_ids.size(); ++i) {
    if (plan.group_ids[i] != 0) continue;
    MoveToPlan(*next, step, i, out);
    const v1::GroupHead& group = *groups_.accepted(*next).head;
    collapse_.Refill(step, group, plan.collapse);
    drawn_.Add(plan.drawn, -1);
    plan.drawn.Add(group);
    drawn_.Add(plan.drawn, 1);
    plan.group_ids[i] = *next++;
    out.refills.push_back({plan, static_cast<std::uint32_t>(i)});
  }
  CountPassed(*ids, out);
  missing_ -= rules.prompts;
  return true;
}

void Scheduler::MoveToPlan(std::uint64_t group_id, std::uint64_t step, std::size_t position,
                           LedgerChanges& out) {
  groups_.Move(group_id, GroupState::kBatched, out, [&](GroupRow& group) {
    group.step = step;
    group.position = static_cast<std::uint32_t>(position);
  });
}

// Records that the planned groups `group_ids`, in rising order, passed the older ones that are
// still in the line.
void Scheduler::CountPassed(const std::vector<std::uint64_t>& group_ids, LedgerChanges& out) {
  for (const std::uint64_t id : groups_.line()) {
    const auto passed = group_ids.end() - std::ranges::upper_bound(group_ids, id);
    if (passed == 0) break;
    groups_.Edit(id, out, [&](GroupRow& group) { group.passed += passed; });
  }
}

void Scheduler::WritePlan(std::uint64_t step, const std::vector<std::uint64_t>& group_ids,
                          LedgerChanges& out) {
  std::vector<const AcceptedGroup*> contents;
  for (std::size_t i = 0; i < group_ids.size(); ++i) {
    MoveToPlan(group_ids[i], step, i, out);
    contents.push_back(&groups_.accepted(group_ids[i]));
  }
  CountPassed(group_ids, out);
  const bool filled = std::ranges::any_of(contents, [](const AcceptedGroup* group) {
    return ClassOf(*group->head) != CollapseClass::kMixed;
  });
  if (options_.resample && filled) ++events_.batches_filled;
  PlanRow plan;
  plan.step = step;
  plan.group_ids = group_ids;
  if (options_.control.on()) NoteControl(plan);
  for (const auto& [id, accepted] : replaced_) contents.push_back(&accepted);
  plan.collapse = collapse_.Observe(step, contents);
  for (const AcceptedGroup* group : contents) plan.drawn.Add(*group->head);
  drawn_.Add(plan.drawn, 1);
  replaced_.clear();
  plans_[step] = plan;
  out.plans.push_back(plan);
  run_.planned_step = step;
  run_.acr_ema = collapse_.acr_ema();
  if (options_.selection.mode == SelectionMode::kGreso) {
    run_.greso = AdaptGreso(greso(), plan.collapse.step, options_.selection.greso.target);
  }
  out.run = run_;
}

void Scheduler::NoteControl(PlanRow& plan) {
  const auto is_mixed = [&](std::uint64_t id) {
    return ClassOf(*groups_.accepted(id).head) == CollapseClass::kMixed;
  };
  const CollapseCounts recent = collapse_.recent();
  draw_.expected.reset();
  if (recent.groups > 0) {
    const double rate = static_cast<double>(recent.mixed) / static_cast<double>(recent.groups);
    draw_.expected = ExpectedMixed(rate, options_.prompts, ReplaceCap());
  }
  draw_.mixed = static_cast<double>(std::ranges::count_if(plan.group_ids, is_mixed)) /
                static_cast<double>(options_.prompts);
  for (const auto& [id, accepted] : replaced_) draw_.replaced_tokens += TokensOf(*accepted.head);
  plan.control = draw_;
  draw_.factor = NextDrawFactor(options_.control, draw_, options_.replace_cap / options_.prompts);
}

Plan Scheduler::ReadPlan(const PlanRow& row) const {
  Plan plan{row.step, {}, row.collapse, row.drawn, row.control};
  for (const std::uint64_t id : row.group_ids) plan.groups.push_back(groups_.accepted(id).head);
  return plan;
}

Result<std::vector<PayloadRef>> Scheduler::Payloads(
    std::uint64_t learner_epoch, std::uint64_t step,
    std::span<const std::uint64_t> group_ids) const {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  std::vector<PayloadRef> payloads;
  for (const std::uint64_t id : group_ids) {
    const GroupRow* group = groups_.Find(id);
    if (group == nullptr || group->step != step || step == 0) {
      return Aborted(
          fmt::format("group {} is not in the plan of step {}, or the step is settled; "
                      "ask for the plan again",
                      id, step));
    }
    payloads.push_back(groups_.accepted(id).payload);
  }
  return payloads;
}

std::vector<PayloadRef> Scheduler::PlanPayloads(std::uint64_t step) const {
  std::vector<PayloadRef> payloads;
  const auto plan = plans_.find(step);
  if (plan == plans_.end()) return payloads;
  for (const std::uint64_t id : plan->second.group_ids)
    if (id != 0) payloads.push_back(groups_.accepted(id).payload);
  return payloads;
}

Status Scheduler::Commit(std::uint64_t learner_epoch, std::uint64_t step, LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  if (step <= run_.committed_step) return OkStatus();
  if (step != run_.committed_step + 1 || !plans_.contains(step) || Missing(plans_.at(step)) > 0) {
    return FailedPrecondition(fmt::format(
        "step {} cannot be committed: the last committed step is {}, the last planned one {}", step,
        run_.committed_step, run_.planned_step));
  }
  for (const std::uint64_t id : plans_.at(step).group_ids)
    groups_.Move(id, GroupState::kTrained, out);
  run_.committed_step = step;
  out.commits.push_back({learner_epoch, step});
  if (step == options_.steps) EndRun(out);
  out.run = run_;
  return OkStatus();
}

// Drops every group that is not trained by the end of the run.
void Scheduler::EndRun(LedgerChanges& out) {
  using enum GroupState;
  for (const GroupState state : {kPending, kLeased, kReady, kBatched}) {
    for (const std::uint64_t id : groups_.InState(state))
      groups_.Drop(id, DropReason::kRunEnded, out);
  }
  leases_.Clear();
}

Status Scheduler::Announce(std::uint64_t learner_epoch, const ManifestRow& weights,
                           LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  const PolicyVersion& version = weights.version;
  if (version.learner_epoch != learner_epoch || version.step < lineage_.StartStep(learner_epoch) ||
      version.step > run_.committed_step) {
    return FailedPrecondition(fmt::format(
        "version {} (epoch:step) cannot be announced in epoch {}: expected a step between {} and "
        "the last committed one, {}",
        ToString(version), learner_epoch, lineage_.StartStep(learner_epoch), run_.committed_step));
  }
  if (announced_ && !OlderThan(announced_->version, version)) {
    const bool same = announced_->version.step == version.step;
    if (!same || announced_->version.digest == version.digest) return OkStatus();
    return FailedPrecondition(
        fmt::format("version {} was announced before with other weights", ToString(version)));
  }
  announced_ = weights;
  digests_[{version.learner_epoch, version.step}] = version.digest;
  if (digests_.size() > kKeptVersions) digests_.erase(digests_.begin());
  workers_.Announce(version);
  out.manifests.push_back(weights);
  for (const std::uint64_t id : std::set(groups_.slot_holders())) {
    const GroupRow& group = *groups_.Find(id);
    if (group.state != GroupState::kTrained || group.step > version.step) continue;
    groups_.Edit(id, out, [](GroupRow& row) { row.holds_slot = false; });
  }
  return OkStatus();
}

Status Scheduler::Checkpointed(std::uint64_t learner_epoch, std::uint64_t step,
                               const std::string& digest, LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(CheckEpoch(learner_epoch));
  if (step > run_.committed_step || step < run_.checkpoint_step) {
    return FailedPrecondition(
        fmt::format("checkpoint of step {} is impossible: the last committed step is {}, the last "
                    "checkpoint of step {}",
                    step, run_.committed_step, run_.checkpoint_step));
  }
  out.checkpoints.push_back({learner_epoch, step, digest});
  checkpoints_[{learner_epoch, step}] = digest;
  MoveCheckpoint(step, out);
  out.run = run_;
  return OkStatus();
}

// Settles what the checkpoint before that of `step` holds. Whoever goes back to an older checkpoint
// settles nothing.
void Scheduler::MoveCheckpoint(std::uint64_t step, LedgerChanges& out) {
  if (step > run_.checkpoint_step) Settle(run_.checkpoint_step, out);
  if (step == options_.steps) Settle(step, out);
  run_.checkpoint_step = step;
}

std::uint64_t Scheduler::FirstNeededSegment() const {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [id, accepted] : groups_.accepted())
    first = std::min(first, accepted.payload.segment);
  return first;
}

void Scheduler::Settle(std::uint64_t step, LedgerChanges& out) {
  for (auto plan = plans_.begin(); plan != plans_.end() && plan->first <= step;
       plan = plans_.erase(plan)) {
    drawn_.Add(plan->second.drawn, -1);
    for (const std::uint64_t id : plan->second.group_ids)
      groups_.Move(id, GroupState::kSettled, out);
  }
  run_.settled_step = std::max(run_.settled_step, step);
  std::erase_if(checkpoints_,
                [this](const auto& entry) { return entry.first.second < run_.settled_step; });
  run_.finished = run_.settled_step == options_.steps;
}

}  // namespace buttress
