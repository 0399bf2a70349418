#include "coordinator/loop/loop_core.h"

#include <algorithm>
#include <utility>

#include "lib/base/report/log.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

constexpr std::int64_t kLongestWaitMs = 1000;
constexpr std::int64_t kPublishMs = 200;

// Returns true if a worker that has no room may have to learn of something. A group without a
// signal is dropped by the worker's own submission, and a checkpoint is news only once the run
// ends.
bool BringsNews(const Scheduler& scheduler, const LedgerChanges& changes) {
  const bool ends = scheduler.finished() || scheduler.stop_phase() != StopPhase::kNone;
  return !changes.orders.empty() || !changes.manifests.empty() || !changes.learners.empty() ||
         (ends && !changes.checkpoints.empty()) ||
         std::ranges::any_of(changes.groups, [](const GroupRow& group) {
           return group.state == GroupState::kDropped && group.reason != DropReason::kNoSignal;
         });
}

}  // namespace

LoopCore::LoopCore(Parts parts, Inbox& inbox)
    : inbox_(inbox),
      terms_(std::move(parts.terms)),
      scheduler_(std::move(parts.scheduler)),
      prompts_(std::move(parts.prompts)),
      ledger_(parts.ledger),
      payloads_(parts.payloads),
      metrics_(parts.metrics),
      store_({parts.ledger, parts.payloads, scheduler_, parts.metrics, parts.clock,
              std::move(parts.disk), parts.keep_payloads, parts.last_plan, parts.archive_steps,
              parts.mirror, [this] { AnswerReads(); }}),
      clock_(parts.clock),
      reports_(std::move(parts.out), terms_.controls) {
  if (Mirror* const mirror = parts.mirror; mirror != nullptr)
    reports_.standby = [mirror] { return mirror->StatusText(); };
  Publish();  // so that a scrape before the first turn reads the ledger's counts
}

Turn LoopCore::BeginTurn(LedgerChanges& changes) {
  return {terms_,          scheduler_, prompts_,   payloads_,       metrics_,         changes,
          leased_prompts_, reports_,   announced_, clock_.now_ms(), inbox_.draining()};
}

void LoopCore::RunTurn() {
  const double began = MonotonicSeconds();
  metrics_.metrics.health().Beat();
  ApplyTurn();
  reports_.busy_seconds += MonotonicSeconds() - began;
}

void LoopCore::ApplyTurn() {
  if (const Status may = MayChange(); !may.ok()) return Refuse(may);
  if (const std::int64_t away_ms = clock_.Tick(); away_ms > 0) {
    metrics_.stalls.Increment();
    Log(kWarn, "the process did not run for a while; leases are prolonged", {{"ms", away_ms}});
  }
  LedgerChanges changes;
  Turn turn = BeginTurn(changes);
  Answers answers;
  ApplyPosted(turn, answers);
  scheduler_.Expire(turn.now_ms, changes);
  AdmitPrompts(turn);
  // A plan may drop groups; that makes room for prompts, for which a parked worker may wait.
  do {
    ApplyParked(turn, answers);
  } while (AdmitPrompts(turn));
  for (const GroupRow& group : changes.groups) {
    if (group.state != GroupState::kLeased) leased_prompts_.erase(group.group_id);
  }
  Status status = turn.failed.ok() ? store_.Write(turn) : turn.failed;
  if (status.ok()) {
    // While requests wait the next turn begins at once, and publishing every turn would slow it.
    if (inbox_.empty() || turn.now_ms >= published_ms_ + kPublishMs) Publish();
  } else {
    // The state in memory is ahead of the ledger, so no caller may learn anything of it.
    if (!IsPaused(status)) status = Fail(std::move(status));
    for (auto& [request, answer] : answers) answer = status;
  }
  for (const auto& [request, answer] : answers) Reply(request, answer);
  if (status.ok()) store_.ArchiveEnded();
}

Status LoopCore::MayChange() {
  if (!failed_.ok()) return Fail(failed_);
  const bool was_paused = store_.paused();
  Status room = store_.EnsureRoom();
  if (room.ok() && was_paused) clock_.Skip();
  return room.ok() || IsPaused(room) ? room : Fail(std::move(room));
}

void LoopCore::Refuse(const Status& why) {
  LedgerChanges none;
  Turn turn = BeginTurn(none);
  turn.paused = store_.why_paused();
  std::vector<LoopRequest*> refused = TakeAll();
  for (const ParkedCall& parked : std::exchange(parked_, {})) refused.push_back(parked.call);
  for (LoopRequest* request : refused) {
    const bool may_read = failed_.ok() && request->terms.only_reads;
    Reply(request, may_read ? request->Apply(turn, true).value_or(why) : why);
  }
}

void LoopCore::AnswerReads() {
  LedgerChanges none;
  Turn turn = BeginTurn(none);
  std::vector<LoopRequest*> held;
  for (LoopRequest* request : TakeAll()) {
    if (request->cancelled()) {
      Reply(request, Cancelled("the caller has left"));
    } else if (request->terms.only_reads) {
      Reply(request, request->Apply(turn, true).value_or(OkStatus()));
    } else {
      held.push_back(request);
    }
  }
  held_ = std::move(held);
}

std::vector<LoopRequest*> LoopCore::TakeAll() {
  std::vector<LoopRequest*> all = std::exchange(held_, {});
  const std::vector<LoopRequest*> posted = inbox_.Take();
  all.insert(all.end(), posted.begin(), posted.end());
  return all;
}

void LoopCore::ApplyPosted(Turn& turn, Answers& answers) {
  for (LoopRequest* request : TakeAll()) {
    if (std::optional<Status> status = request->Apply(turn, request->terms.hold_ms == 0)) {
      answers.emplace_back(request, std::move(*status));
    } else {
      Park(request, turn.now_ms + std::min(request->terms.hold_ms, terms_.max_hold_ms));
    }
  }
}

void LoopCore::Park(LoopRequest* call, std::int64_t deadline_ms) {
  const auto place = [](const ParkedCall& parked) {
    return std::pair(parked.call->terms.awaits, parked.deadline_ms);
  };
  const ParkedCall parked = {call, deadline_ms};
  parked_.insert(std::ranges::upper_bound(parked_, place(parked), {}, place), parked);
}

void LoopCore::ApplyParked(Turn& turn, Answers& answers) {
  const auto apply = [&](LoopRequest* call, bool last) {
    std::optional<Status> status =
        call->cancelled() ? Cancelled("the caller has left") : call->Apply(turn, last);
    if (status) answers.emplace_back(call, std::move(*status));
    return status.has_value();
  };
  std::erase_if(parked_, [&](const ParkedCall& parked) {
    return (turn.draining || parked.deadline_ms <= turn.now_ms) && apply(parked.call, true);
  });
  const bool news = BringsNews(scheduler_, turn.changes);
  const auto has_answer = [&](Awaited awaited) {
    if (awaited == Awaited::kChanges) return !turn.changes.empty();
    return news || (awaited == Awaited::kGroups && scheduler_.MayLease());
  };
  std::erase_if(parked_, [&](const ParkedCall& parked) {
    return has_answer(parked.call->terms.awaits) && apply(parked.call, false);
  });
}

void LoopCore::Reply(LoopRequest* request, const Status& status) {
  inbox_.Done(*request);
  request->Answer(status);
}

bool LoopCore::AdmitPrompts(Turn& turn) {
  const std::int64_t wanted = WantedPrompts();
  if (wanted <= 0 || !turn.failed.ok()) return false;
  const auto record = [this](std::uint64_t row) -> Result<PromptRecord> {
    if (const PromptRecord* newest = scheduler_.FindRecord(row)) return *newest;
    return ledger_.ReadPromptRecord(row);
  };
  const auto drawn = prompts_.Draw(wanted, {record, scheduler_.greso()});
  if (!drawn.ok()) {
    turn.failed = drawn.status();
    return false;
  }
  scheduler_.Remember(drawn->records);
  scheduler_.Admit(drawn->prompts, drawn->skipped, prompts_.cursors(), turn.changes);
  return true;
}

std::int64_t LoopCore::WantedPrompts() const {
  return inbox_.draining() ? 0 : scheduler_.NeedsPrompts();
}

Status LoopCore::Fail(Status status) {
  if (failed_.ok()) {
    failed_ = std::move(status);
    Log(kError, "the coordinator stops", {{"error", failed_.ToString()}});
    metrics_.SetReady(false);
  }
  return Unavailable("the coordinator restarts: " + failed_.message());
}

void LoopCore::Publish() {
  published_ms_ = clock_.now_ms();
  PublishEnd();
  metrics_.parked_calls.Set(static_cast<double>(parked_.size()));
  metrics_.run->Update(scheduler_.GetStatus(), scheduler_.events(), store_.last_plan(),
                       scheduler_.workers().known(), clock_.now_ms());
}

void LoopCore::PublishEnd() {
  const std::uint64_t step = scheduler_.run().checkpoint_step;
  const bool early = !scheduler_.end_reason().empty();
  const bool ended = scheduler_.finished() || early;
  const bool stopped = scheduler_.stop_phase() == StopPhase::kDone && !early;
  finished_ = scheduler_.finished() || (early && !scheduler_.ended_before_start());
  if (ended == ended_ && stopped == stopped_) return;
  if (early) {
    Log(kInfo, "the learner has ended the run", {{"step", step}, {"why", scheduler_.end_reason()}});
  } else if (ended) {
    Log(kInfo, "the run is finished", {{"steps", step}});
  } else if (stopped) {
    Log(kInfo, "the run is stopped", {{"checkpoint", step}});
  }
  ended_ = ended;
  stopped_ = stopped;
  metrics_.run_finished.Set(ended && !early ? 1 : 0);
  metrics_.run_stopped.Set(stopped || early ? 1 : 0);
}

std::int64_t LoopCore::WaitMs() const {
  if (!held_.empty()) return 0;
  if (store_.paused()) return !parked_.empty() ? 0 : std::min(store_.pause_ms(), kLongestWaitMs);
  if (failed_.ok() && WantedPrompts() > 0) return 0;
  std::int64_t wait_ms = kLongestWaitMs;
  if (const auto expiry = scheduler_.NextExpiryMs())
    wait_ms = std::min(wait_ms, clock_.MsUntil(*expiry));
  for (const ParkedCall& parked : parked_)
    wait_ms = std::min(wait_ms, clock_.MsUntil(parked.deadline_ms));
  return wait_ms;
}

}  // namespace buttress
