#include "coordinator/coordinator_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/failpoint.h"
#include "lib/base/log.h"
#include "lib/base/shutdown.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kQueueBound = 4096;
constexpr std::size_t kTurnBound = 512;  // requests of one turn
constexpr std::int64_t kLongestWaitMs = 1000;
constexpr std::int64_t kPublishMs = 200;
// No sync takes this long: the process was stopped, or the machine slept.
constexpr std::int64_t kStallMs = 3000;

}  // namespace

CoordinatorLoop::CoordinatorLoop(Parts parts)
    : parts_(std::move(parts)), queue_(kQueueBound), last_wake_ms_(parts_.clock.MonotonicMs()) {
  Publish(last_wake_ms_);  // so that a scrape before the first turn reads the ledger's counts
  thread_ = std::thread([this] { Run(); });
}

CoordinatorLoop::~CoordinatorLoop() {
  Drain();
  Stop().IgnoreError();
}

bool CoordinatorLoop::Post(LoopRequest* request) { return queue_.Push(request, milliseconds(0)); }

void CoordinatorLoop::Drain() {
  draining_ = true;
  LoopRequest* wake = nullptr;
  queue_.Push(wake, milliseconds(kLongestWaitMs));
}

Status CoordinatorLoop::Stop() {
  BUTTRESS_CHECK(draining_, "Drain is called before Stop, so that long polls are answered");
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  return failed_;
}

void CoordinatorLoop::Run() {
  while (true) {
    parts_.metrics.metrics.health().Beat();
    const std::optional<LoopRequest*> first = queue_.Pop(milliseconds(WaitMs()));
    if (!first && queue_.closed() && parked_.empty()) break;
    RunTurn(first.value_or(nullptr));
  }
}

void CoordinatorLoop::RunTurn(LoopRequest* first) {
  LedgerChanges changes;
  Turn turn{parts_.terms, parts_.scheduler, parts_.prompts, parts_.payloads, parts_.metrics,
            changes,      leased_prompts_,  NowMs(),        draining_};
  std::vector<Answer> answers;
  if (failed_.ok()) {
    parts_.scheduler.Expire(turn.now_ms, changes);
    ApplyPosted(first, turn, answers);
    AdmitPrompts(turn);
    // A plan may drop groups; that makes room for prompts, for which a parked worker may wait.
    do {
      ApplyParked(turn, answers);
    } while (AdmitPrompts(turn));
    if (Status status = turn.failed.ok() ? Persist(turn) : turn.failed; !status.ok())
      Fail(std::move(status));
  } else if (first != nullptr) {
    answers.push_back({first, OkStatus()});
  }

  if (failed_.ok()) {
    if (!changes.empty()) Failpoint("after_commit");
    if (!changes.plans.empty()) parts_.last_plan = changes.plans.back().collapse.step;
    if (!changes.checkpoints.empty() && !parts_.keep_payloads) DeleteSettledPayloads();
    // While requests wait the next turn begins at once, and publishing every turn would slow it.
    if (queue_.size() == 0 || turn.now_ms >= published_ms_ + kPublishMs) Publish(turn.now_ms);
  } else {
    // The state in memory is ahead of the ledger, so no caller may learn anything of it.
    for (const Parked& parked : parked_) answers.push_back({parked.request, OkStatus()});
    parked_.clear();
    for (Answer& answer : answers)
      answer.status = Unavailable("the coordinator restarts: " + failed_.message());
  }
  for (const Answer& answer : answers) answer.request->Answer(answer.status);
  ForgetEndedLeases();
}

void CoordinatorLoop::ApplyPosted(LoopRequest* first, Turn& turn, std::vector<Answer>& answers) {
  std::optional<LoopRequest*> next = first;
  for (std::size_t n = 0; next; ++n) {
    LoopRequest* const request = *next;
    next = n + 1 < kTurnBound ? queue_.Pop(milliseconds(0)) : std::nullopt;
    if (request == nullptr) continue;
    if (std::optional<Status> status = request->Apply(turn, request->hold_ms() == 0)) {
      answers.push_back({request, std::move(*status)});
    } else {
      const std::int64_t hold_ms = std::min(request->hold_ms(), parts_.terms.max_hold_ms);
      parked_.push_back({request, turn.now_ms + hold_ms});
    }
  }
}

void CoordinatorLoop::ForgetEndedLeases() {
  if (leased_prompts_.size() < 2 * leased_prompts_kept_ + kTurnBound) return;
  std::erase_if(leased_prompts_, [&](const auto& leased) {
    const GroupRow* const group = parts_.scheduler.groups().Find(leased.first);
    return group == nullptr || group->state != GroupState::kLeased;
  });
  leased_prompts_kept_ = leased_prompts_.size();
}

void CoordinatorLoop::Fail(Status status) {
  failed_ = std::move(status);
  Log(kError, "the coordinator stops", {{"error", failed_.ToString()}});
  parts_.metrics.SetReady(false);
  RequestShutdown();
}

bool CoordinatorLoop::AdmitPrompts(Turn& turn) {
  const std::int64_t wanted = turn.draining ? 0 : parts_.scheduler.NeedsPrompts();
  if (wanted <= 0 || !turn.failed.ok()) return false;
  const auto drawn = parts_.prompts.Draw(wanted, parts_.scheduler.memory());
  if (!drawn.ok()) {
    turn.failed = drawn.status();
    return false;
  }
  parts_.scheduler.Admit(drawn->prompts, drawn->skipped, parts_.prompts.cursor(), turn.changes);
  return true;
}

void CoordinatorLoop::ApplyParked(Turn& turn, std::vector<Answer>& answers) {
  std::erase_if(parked_, [&](const Parked& parked) {
    const bool last = turn.draining || turn.now_ms >= parked.deadline_ms;
    std::optional<Status> status;
    if (parked.request->cancelled()) {
      status = Cancelled("the caller has left");
    } else if (last || parked.request->ConcernedBy(turn.changes)) {
      status = parked.request->Apply(turn, last);
    }
    if (status) answers.push_back({parked.request, std::move(*status)});
    return status.has_value();
  });
}

Status CoordinatorLoop::Persist(const Turn& turn) {
  if (turn.changes.empty()) return OkStatus();
  const double begin = MonotonicSeconds();
  Status status = turn.payloads_appended ? parts_.payloads.Sync() : OkStatus();
  if (turn.payloads_appended) Failpoint("before_transaction");
  if (status.ok()) status = parts_.ledger.Write(turn.changes);
  parts_.metrics.store_commit_seconds.Observe(MonotonicSeconds() - begin);
  (status.ok() ? parts_.metrics.store_commits : parts_.metrics.store_errors).Increment();
  return status.Annotate("writing the ledger");
}

void CoordinatorLoop::DeleteSettledPayloads() {
  // PayloadStore::Open expects the segment of the last reference, whether it is needed or not.
  const std::uint64_t last = parts_.ledger.payload_end().segment;
  const Status status =
      parts_.payloads.DeleteBefore(std::min(parts_.scheduler.FirstNeededSegment(), last)).status();
  if (!status.ok())
    Log(kWarn, "payloads of settled groups could not be deleted", {{"error", status.ToString()}});
}

void CoordinatorLoop::Publish(std::int64_t now_ms) {
  published_ms_ = now_ms;
  if (parts_.scheduler.finished() && !finished_) {
    finished_ = true;
    parts_.metrics.run_finished.Set(1);
    Log(kInfo, "the run is finished", {{"steps", parts_.scheduler.run().settled_step}});
  }
  const bool stopped = parts_.scheduler.stop_phase() == StopPhase::kDone;
  if (stopped && !stopped_) {
    Log(kInfo, "the run is stopped",
        {{"checkpoint", parts_.scheduler.run().settled_step},
         {"why", parts_.scheduler.end_reason()}});
  }
  if (stopped != stopped_) parts_.metrics.run_stopped.Set(stopped ? 1 : 0);
  stopped_ = stopped;
  parts_.metrics.parked_calls.Set(static_cast<double>(parked_.size()));
  parts_.metrics.run->Update(parts_.scheduler.GetStatus(), parts_.scheduler.events(),
                             parts_.last_plan);
  // A walk over a thousand workers at every turn would cost more than the turn.
  const auto& workers = parts_.scheduler.workers();
  if (workers.size() == counted_workers_ && now_ms < counted_workers_ms_ + kPublishMs) return;
  counted_workers_ = workers.size();
  counted_workers_ms_ = now_ms;
  parts_.metrics.run->UpdateWorkers(workers, now_ms);
}

std::int64_t CoordinatorLoop::WaitMs() const {
  std::int64_t next_ms = last_wake_ms_ - stalled_ms_ + kLongestWaitMs;
  if (const auto expiry = parts_.scheduler.NextExpiryMs()) next_ms = std::min(next_ms, *expiry);
  for (const Parked& parked : parked_) next_ms = std::min(next_ms, parked.deadline_ms);
  return std::clamp<std::int64_t>(next_ms + stalled_ms_ - parts_.clock.MonotonicMs(), 0,
                                  kLongestWaitMs);
}

std::int64_t CoordinatorLoop::NowMs() {
  const std::int64_t now_ms = parts_.clock.MonotonicMs();
  const std::int64_t away_ms = now_ms - last_wake_ms_;
  last_wake_ms_ = now_ms;
  if (away_ms > kLongestWaitMs + kStallMs) {
    // Workers could not renew their leases in this time.
    stalled_ms_ += away_ms;
    parts_.metrics.stalls.Increment();
    Log(kWarn, "the process did not run for a while; leases are prolonged", {{"ms", away_ms}});
  }
  return now_ms - stalled_ms_;
}

}  // namespace buttress
