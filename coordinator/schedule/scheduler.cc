// The scheduler's prompts, weights and orders. scheduler_leases.cc has the workers' side,
// scheduler_submit.cc submissions, scheduler_learner.cc the learner's side.
#include "coordinator/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/rl/staleness.h"

namespace buttress {

// Returns the index in the line below which groups may be leased (see the head of scheduler.h).
std::int64_t Scheduler::LeasableLine() const {
  if (weights() == nullptr || stop_requested_) return 0;
  const std::int64_t planned = static_cast<std::int64_t>(run_.planned_step) * options_.prompts;
  const auto version = static_cast<std::int64_t>(announced_->version.step);
  const std::int64_t headroom =
      std::max<std::int64_t>(0, LeaseHeadroom(options_.prompts, rules_.max_age, version, planned));
  if (missing_ == 0) return headroom;
  const auto count = [&](GroupState state) {
    return groups_.counts()[static_cast<std::size_t>(state)];
  };
  const std::int64_t held_by_plans =
      groups_.active_slots() - count(GroupState::kLeased) - count(GroupState::kReady);
  return std::min(missing_ + headroom,
                  ActiveSlotBudget(options_.prompts, rules_.max_age) - held_by_plans);
}

bool Scheduler::MayLease() const {
  if (leases_.AnyLate(now_ms_) && LeasableLine() > 0) return true;
  const auto& pending = groups_.pending();
  return !pending.empty() &&
         static_cast<std::int64_t>(groups_.line().order_of_key(*pending.begin())) < LeasableLine();
}

std::int64_t Scheduler::NeedsPrompts() const {
  if (run_.planned_step == options_.steps && missing_ == 0) return 0;
  // The last steps need W - 1 prompts beyond those that they train, so that the last plan need not
  // wait for a slow group either.
  const std::int64_t left =
      static_cast<std::int64_t>(options_.steps - run_.planned_step) * options_.prompts;
  const std::int64_t wanted = std::min(LeasableLine(), missing_ + left + options_.window - 1);
  return std::max<std::int64_t>(0, wanted - static_cast<std::int64_t>(groups_.line().size()));
}

GresoBases Scheduler::greso() const {
  const GresoConfig& greso = options_.selection.greso;
  return run_.greso.value_or(GresoBases{greso.keep_easy, greso.keep_hard});
}

void Scheduler::Admit(std::span<const DrawnPrompt> prompts, std::span<const SkipRow> skipped,
                      std::span<const PromptCursor> cursors, LedgerChanges& out) {
  BUTTRESS_CHECK(static_cast<std::int64_t>(prompts.size()) <= NeedsPrompts(),
                 "no more prompts than are needed");
  for (const DrawnPrompt& prompt : prompts) {
    BUTTRESS_CHECK(prompt.completions >= 1, "a group has completions");
    BUTTRESS_CHECK(!selects_prompts() || records_.Find(prompt.row) != nullptr,
                   "the record of a drawn prompt is remembered");
    GroupRow row;
    row.group_id = run_.next_group_id++;
    row.prompt = prompt;
    groups_.Add(row, out);
  }
  for (const SkipRow& skip : skipped)
    ++skipped_[skip.source][static_cast<std::size_t>(skip.reason)];
  out.skipped.insert(out.skipped.end(), skipped.begin(), skipped.end());
  BUTTRESS_CHECK(cursors.size() == run_.sources.size(), "every source has its cursor");
  for (std::size_t i = 0; i < cursors.size(); ++i) run_.sources[i].cursor = cursors[i];
  records_.Trim(groups_.rows(), out);
  out.run = run_;
}

const ManifestRow* Scheduler::weights() const {
  return announced_ && !lineage_.Abandoned(announced_->version) ? &*announced_ : nullptr;
}

std::optional<std::string> Scheduler::DigestOf(const PolicyVersion& version) const {
  const auto found = digests_.find({version.learner_epoch, version.step});
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

Status Scheduler::OrderWorker(const WorkerOrderRow& order, LedgerChanges& out) {
  BUTTRESS_RETURN_IF_ERROR(workers_.Order(order));
  out.orders.push_back(order);
  return OkStatus();
}

Status Scheduler::OrderMaxAge(std::optional<std::int64_t> max_age, LedgerChanges& out) {
  if (options_.deterministic) {
    return InvalidArgument(
        "run.deterministic is set: every group is sampled from one version, so that no other "
        "max_age than 0 is possible");
  }
  run_.ordered_max_age = max_age;
  rules_.max_age = max_age.value_or(options_.max_age);
  out.run = run_;
  return OkStatus();
}

void Scheduler::EndEarly(std::string why, LedgerChanges& out) {
  stop_requested_ = learner_knows_stop_ = true;
  early_end_ = {run_.learner_epoch, run_.checkpoint_step, run_.coordinator_epoch, std::move(why)};
  out.early_end = early_end_;
}

bool Scheduler::AwaitsLearner(const std::string& worker_id) const {
  const auto worker = workers_.known().find(worker_id);
  return early_end_ && worker != workers_.known().end() &&
         worker->second.joined > early_end_->coordinator_epoch;
}

StopPhase Scheduler::stop_phase() const {
  if (!stop_requested_) return StopPhase::kNone;
  return learner_knows_stop_ && run_.checkpoint_step == run_.committed_step ? StopPhase::kDone
                                                                            : StopPhase::kRequested;
}

}  // namespace buttress
