// Submissions: which groups are accepted, once, and what happens to the others.
#include <algorithm>
#include <utility>

#include "coordinator/schedule/scheduler.h"
#include "lib/experience/codec.h"
#include "lib/experience/episodes.h"
#include "lib/rl/collapse/draw_control.h"

namespace buttress {

std::string_view SubmitOutcomeName(SubmitOutcome outcome) {
  static constexpr std::array<std::string_view, kSubmitOutcomes> kNames = {
      "accepted", "duplicate", "stale_fence", "stale_policy", "conflict", "mismatch"};
  return kNames[static_cast<std::size_t>(outcome)];
}

void EpisodeEvents::Add(const v1::GroupHead& head) {
  for (int i = 0; i < head.turns_size(); ++i) {
    turns += head.turns(i);
    policy_tokens += head.sampled_lengths(i);
    environment_tokens += head.lengths(i) - head.sampled_lengths(i);
    if (!head.tool_calls().empty()) {
      tool_calls += head.tool_calls(i);
      failed_tool_calls += head.failed_tool_calls(i);
    }
    if (IsRoot(head, i)) ++ends[static_cast<std::size_t>(head.episode_ends(i))];
  }
}

SubmitOutcome Scheduler::Check(const Submission& submission) const {
  const GroupRow* group = groups_.Find(submission.lease.group_id);
  if (group == nullptr) return CheckEnded(submission);
  if (group->state == GroupState::kPending) return SubmitOutcome::kStaleFence;
  if (group->state != GroupState::kLeased) {
    const AcceptedGroup& accepted = groups_.accepted(group->group_id);
    if (accepted.content_sha256 == submission.content_sha256) return SubmitOutcome::kDuplicate;
    const bool same_lease = accepted.lease_epoch == submission.lease.lease_epoch;
    return same_lease ? SubmitOutcome::kConflict : SubmitOutcome::kStaleFence;
  }
  if (!Holds(submission.worker_id, submission.incarnation, submission.lease))
    return SubmitOutcome::kStaleFence;
  const v1::GroupHead& head = submission.head;
  if (head.prompt_id() != group->prompt.prompt_id || head.group_id() != group->group_id ||
      Episodes(head) < 1 || Episodes(head) > group->prompt.completions) {
    return SubmitOutcome::kMismatch;
  }
  return CheckVersions(*group, head);
}

// Only the content tag of an accepted group that has ended is kept, and for a while.
SubmitOutcome Scheduler::CheckEnded(const Submission& submission) const {
  const std::optional<std::uint64_t> tag = groups_.EndedTag(submission.lease.group_id);
  if (!tag) return SubmitOutcome::kStaleFence;
  return *tag == ContentTag(submission.content_sha256) ? SubmitOutcome::kDuplicate
                                                       : SubmitOutcome::kStaleFence;
}

SubmitOutcome Scheduler::CheckVersions(const GroupRow& group, const v1::GroupHead& head) const {
  if (AnyAbandoned(head)) return SubmitOutcome::kStalePolicy;
  for (const v1::PolicyVersion& named : head.versions()) {
    const PolicyVersion version = {named.learner_epoch(), named.step(), ""};
    if (OlderThan(announced_->version, version)) return SubmitOutcome::kMismatch;
    if (version.step < group.min_version.step && !MayBeOld(version, head))
      return SubmitOutcome::kStalePolicy;
    if (options_.deterministic && OlderThan(group.min_version, version))
      return SubmitOutcome::kMismatch;
  }
  return SubmitOutcome::kAccepted;
}

// With run.async.old_tokens a group may continue what an older lease began. Where these tokens are
// masked, others are trained, and they are as young as the lease demands.
bool Scheduler::MayBeOld(const PolicyVersion& version, const v1::GroupHead& head) const {
  if (options_.old_tokens != OldTokens::kMask) return options_.old_tokens == OldTokens::kTrain;
  return version.step < head.versions().rbegin()->step();
}

bool Scheduler::AnyAbandoned(const v1::GroupHead& head) const {
  return std::ranges::any_of(head.versions(), [this](const v1::PolicyVersion& version) {
    return lineage_.Abandoned({version.learner_epoch(), version.step(), ""});
  });
}

SubmitOutcome Scheduler::Submit(Submission submission, LedgerChanges& out) {
  const SubmitOutcome outcome = Check(submission);
  ++events_.submissions[static_cast<std::size_t>(outcome)];
  const std::uint64_t id = submission.lease.group_id;
  const HeldLease* const held =
      leases_.Find(submission.lease, submission.worker_id, submission.incarnation);
  if (outcome == SubmitOutcome::kStalePolicy) EndLease(HeldLease(*held), LeaseEnd::kUnable, 1, out);
  if (outcome != SubmitOutcome::kAccepted) return outcome;

  NameWorker(submission, out);
  EndDelivered(HeldLease(*held), out);
  partials_.Forget(id);
  const GroupRow& group = *groups_.Find(id);
  if (history_.size() <= group.prompt.row) history_.resize(group.prompt.row + 1);
  PromptHistory& history = history_[group.prompt.row];
  v1::GroupHead head = std::move(submission.head);
  head.set_source(group.prompt.source);
  *head.mutable_history() = ToProto(history);
  if (group.prompt.probability < 1)
    head.mutable_history()->set_draw_probability(group.prompt.probability);
  history.Add(OwnHistoryOf(head), options_.history_decay);
  out.histories[group.prompt.row] = history;
  if (head.versions_size() == 0) {
    v1::PolicyVersion* version = head.add_versions();
    version->set_learner_epoch(group.granted_version.learner_epoch);
    version->set_step(group.granted_version.step);
  }
  Record(group, head, out);
  AcceptedGroup accepted{std::make_shared<const v1::GroupHead>(std::move(head)),
                         submission.lease.lease_epoch, std::move(submission.content_sha256),
                         submission.payload};
  out.collapse[accepted.head->source()] = collapse_.Count(accepted);
  events_.episodes.Add(*accepted.head);
  tokens_.Accept(submission.worker_id, submission.incarnation, TokensOf(*accepted.head), out);
  groups_.Accept(std::move(accepted), out);
  refusals_.NoteAccepted();
  if (MayReplace(*groups_.accepted(id).head)) {
    replaced_.emplace(id, groups_.accepted(id));
    groups_.Drop(id, DropReason::kNoSignal, out, run_.planned_step + 1);
  }
  return outcome;
}

bool Scheduler::Refuse(const std::string& worker_id, std::uint64_t incarnation,
                       const LeaseRef& lease, std::int64_t now_ms, LedgerChanges& out) {
  now_ms_ = std::max(now_ms_, now_ms);
  const HeldLease* const held = leases_.Find(lease, worker_id, incarnation);
  if (held == nullptr) return false;
  ++events_.leases_returned;
  EndLease(HeldLease(*held), LeaseEnd::kFailed, 1, out);
  return true;
}

Status Scheduler::NoteRefusal(const std::string& worker_id, const std::string& why) {
  return refusals_.Note(worker_id, why, [this](const std::set<std::string>& workers) {
    return std::ranges::all_of(workers_.known(), [&](const auto& known) {
      return workers.contains(known.first) || workers_.OrderOf(known.first) != WorkerOrder::kNone;
    });
  });
}

// The row keeps the epoch of the newest lease, so that none is given twice.
void Scheduler::NameWorker(const Submission& submission, LedgerChanges& out) {
  const std::uint64_t id = submission.lease.group_id;
  if (groups_.Find(id)->lease_epoch == submission.lease.lease_epoch) return;
  groups_.Edit(id, out, [&](GroupRow& group) {
    group.worker_id = submission.worker_id;
    group.incarnation = submission.incarnation;
  });
}

// A lease that a later one has overtaken is an end without a delivery. Whoever took a late group
// and was not the first has done nothing wrong.
void Scheduler::EndDelivered(const HeldLease& winner, LedgerChanges& out) {
  workers_.NoteDelivery(winner.worker_id, now_ms_);
  leases_.NoteDelivery(now_ms_ - winner.granted_ms);
  for (const HeldLease& lease : leases_.OfGroup(winner.ref.group_id)) {
    if (lease.ref < winner.ref) Strike(lease, out);
  }
  leases_.Close(winner.ref.group_id);
}

void Scheduler::Record(const GroupRow& group, v1::GroupHead& head, LedgerChanges& out) {
  if (!selects_prompts()) return;
  const PromptRecord* before = records_.Find(group.prompt.row);
  BUTTRESS_CHECK(before != nullptr, "a prompt that is under way has its record");
  *head.mutable_record() = ToProto(*before);
  PromptRecord record = *before;
  const auto [raw_rewards, outcomes] = VerdictsOf(head);
  AddGroup(raw_rewards, outcomes, ClassOf(head), group.prompt.pass, options_.selection.mopps.decay,
           record);
  records_.Set(group.prompt.row, record, out);
}

// Nothing is replaced after the last plan, because no further plan needs a replacement.
bool Scheduler::MayReplace(const v1::GroupHead& head) const {
  if (!options_.resample || ClassOf(head) == CollapseClass::kMixed ||
      run_.planned_step == options_.steps)
    return false;
  const std::int64_t in_run = groups_.dropped()[static_cast<std::size_t>(DropReason::kNoSignal)];
  return static_cast<std::int64_t>(replaced_.size()) < ReplaceCap() &&
         (options_.replace_budget == 0 || in_run < options_.replace_budget) && !TokensAreSpent();
}

std::int64_t Scheduler::ReplaceCap() const {
  if (!options_.control.on()) return options_.replace_cap;
  return ReplaceableGroups(draw_.factor, options_.prompts);
}

bool Scheduler::TokensAreSpent() const {
  if (options_.control.tokens == 0) return false;
  std::int64_t tokens = draw_.replaced_tokens;
  for (const auto& [id, accepted] : replaced_) tokens += TokensOf(*accepted.head);
  return tokens >= options_.control.tokens;
}

}  // namespace buttress
