// Submissions: which groups are accepted, once, and what happens to the others.
#include <algorithm>
#include <utility>

#include "coordinator/scheduler.h"

namespace buttress {

std::string_view SubmitOutcomeName(SubmitOutcome outcome) {
  static constexpr std::array<std::string_view, kSubmitOutcomes> kNames = {
      "accepted", "duplicate", "stale_fence", "stale_policy", "conflict", "mismatch"};
  return kNames[static_cast<std::size_t>(outcome)];
}

SubmitOutcome Scheduler::Check(const Submission& submission) const {
  const GroupRow* group = groups_.Find(submission.lease.group_id);
  if (group == nullptr) return CheckEnded(submission);
  if (group->state == GroupState::kPending) return SubmitOutcome::kStaleFence;
  if (group->state != GroupState::kLeased) {
    const AcceptedRow& accepted = groups_.accepted(group->group_id);
    if (accepted.content_sha256 == submission.content_sha256) return SubmitOutcome::kDuplicate;
    const bool same_lease = accepted.lease_epoch == submission.lease.lease_epoch;
    return same_lease ? SubmitOutcome::kConflict : SubmitOutcome::kStaleFence;
  }
  const bool shares = Shares(submission);
  if (!shares && !Holds(submission.worker_id, submission.incarnation, submission.lease))
    return SubmitOutcome::kStaleFence;
  const std::size_t completions = submission.accepted.completions.size();
  if (submission.prompt_id != group->prompt.prompt_id ||
      submission.accepted.group_id != group->group_id || completions < 1 ||
      completions > static_cast<std::size_t>(group->prompt.completions)) {
    return SubmitOutcome::kMismatch;
  }
  const SubmitOutcome outcome = CheckVersions(*group, submission.accepted);
  // The worker that shares the lease may still deliver the group.
  return shares && outcome == SubmitOutcome::kStalePolicy ? SubmitOutcome::kStaleFence : outcome;
}

bool Scheduler::Shares(const Submission& submission) const {
  return trials_.Has(submission.lease, submission.worker_id, submission.incarnation);
}

// Only the content tag of a group that has ended is kept, and for a while.
SubmitOutcome Scheduler::CheckEnded(const Submission& submission) const {
  const std::optional<std::uint64_t> tag = groups_.EndedTag(submission.lease.group_id);
  if (!tag) return SubmitOutcome::kStaleFence;
  return *tag == ContentTag(submission.content_sha256) ? SubmitOutcome::kDuplicate
                                                       : SubmitOutcome::kStaleFence;
}

SubmitOutcome Scheduler::CheckVersions(const GroupRow& group, const AcceptedRow& accepted) const {
  if (AnyAbandoned(accepted.versions)) return SubmitOutcome::kStalePolicy;
  for (const PolicyVersion& version : accepted.versions) {
    if (OlderThan(announced_->version, version)) return SubmitOutcome::kMismatch;
    if (version.step < group.min_version.step) return SubmitOutcome::kStalePolicy;
    if (options_.deterministic && OlderThan(group.min_version, version))
      return SubmitOutcome::kMismatch;
  }
  return SubmitOutcome::kAccepted;
}

bool Scheduler::AnyAbandoned(const std::vector<PolicyVersion>& versions) const {
  return std::ranges::any_of(
      versions, [this](const PolicyVersion& version) { return lineage_.Abandoned(version); });
}

SubmitOutcome Scheduler::Submit(Submission submission, LedgerChanges& out) {
  const SubmitOutcome outcome = Check(submission);
  ++events_.submissions[static_cast<std::size_t>(outcome)];
  const std::uint64_t id = submission.lease.group_id;
  const bool shared = Shares(submission);
  const bool late = outcome == SubmitOutcome::kStaleFence || outcome == SubmitOutcome::kDuplicate;
  if (outcome == SubmitOutcome::kAccepted || (shared && late)) trials_.Prove(submission.worker_id);
  if (shared && late) trials_.End(submission.lease);
  if (outcome == SubmitOutcome::kStalePolicy) {
    if (AnyAbandoned(submission.accepted.versions)) {
      EndLease(id, LeaseEnd::kFailed, 1, out);
    } else {
      deadlines_.Erase(id);
      groups_.Drop(id, DropReason::kStale, out);
    }
  }
  if (outcome != SubmitOutcome::kAccepted) return outcome;

  if (shared) TakeBack(submission, out);
  const GroupRow& group = *groups_.Find(id);
  if (history_.size() <= group.prompt.row) history_.resize(group.prompt.row + 1);
  PromptHistory& history = history_[group.prompt.row];
  AcceptedRow accepted = std::move(submission.accepted);
  accepted.source = group.prompt.source;
  accepted.lease_epoch = submission.lease.lease_epoch;
  accepted.content_sha256 = std::move(submission.content_sha256);
  accepted.history = history;
  history.Add(accepted.own_history(), options_.history_decay);
  if (accepted.versions.empty()) accepted.versions.push_back(group.granted_version);
  out.collapse[accepted.source] = collapse_.Count(accepted);
  Record(group, accepted, out);
  lease_times_.Add(now_ms_ - (deadlines_.limit(id) - options_.lease_limit_ms));
  deadlines_.Erase(id);
  suspects_.erase(id);
  for (const WorkerFaults::Sick& sick : faults_.Accepted(id, group.worker_id)) SetAside(sick, out);
  groups_.Accept(std::move(accepted), out);
  if (MayReplace(groups_.accepted(id))) {
    replaced_.emplace(id, groups_.accepted(id));
    groups_.Drop(id, DropReason::kNoSignal, out, run_.planned_step + 1);
  }
  return outcome;
}

void Scheduler::Refuse(const std::string& worker_id, std::uint64_t incarnation,
                       const LeaseRef& lease, std::int64_t now_ms, LedgerChanges& out) {
  if (trials_.Has(lease, worker_id, incarnation)) {
    trials_.End(lease);
    FailShared(lease.group_id, worker_id, now_ms, out);
  } else if (Holds(worker_id, incarnation, lease)) {
    EndFailed(lease.group_id, LeaseEnd::kFailed, now_ms, out);
  }
}

// The lease that another worker shares counts alone again, because its result came first.
void Scheduler::TakeBack(const Submission& submission, LedgerChanges& out) {
  groups_.Edit(submission.lease.group_id, out, [&](GroupRow& group) {
    group.worker_id = submission.worker_id;
    group.incarnation = submission.incarnation;
    group.lease_epoch = submission.lease.lease_epoch;
  });
  trials_.End(submission.lease);
}

void Scheduler::Record(const GroupRow& group, AcceptedRow& accepted, LedgerChanges& out) {
  if (!selects_prompts()) return;
  const PromptRecord* before = records_.Find(group.prompt.row);
  BUTTRESS_CHECK(before != nullptr, "a prompt that is under way has its record");
  accepted.record = *before;
  PromptRecord record = *before;
  AddGroup(accepted.raw_rewards(), accepted.outcomes(), accepted.collapse, group.prompt.pass,
           options_.selection.mopps.decay, record);
  records_.Set(group.prompt.row, record, out);
}

// Nothing is replaced after the last plan, because no further plan needs a replacement.
bool Scheduler::MayReplace(const AcceptedRow& accepted) const {
  if (!options_.resample || accepted.collapse == CollapseClass::kMixed ||
      run_.planned_step == options_.steps)
    return false;
  const std::int64_t in_run = groups_.dropped()[static_cast<std::size_t>(DropReason::kNoSignal)];
  return static_cast<std::int64_t>(replaced_.size()) < options_.replace_cap &&
         (options_.replace_budget == 0 || in_run < options_.replace_budget);
}

}  // namespace buttress
