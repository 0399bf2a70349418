#include "coordinator/coordinator_loop.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "lib/base/failpoint.h"
#include "lib/base/log.h"
#include "lib/base/shutdown.h"
#include "lib/rpc/paused.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kQueueBound = 4096;
constexpr std::size_t kTurnCalls = 1024;
constexpr std::size_t kTurnSubmissions = 96;
constexpr std::size_t kTurnTold = 128;
// Reading and tokenizing so many takes about as long as so many submissions.
constexpr std::int64_t kTurnPrompts = 128;
constexpr std::int64_t kLongestWaitMs = 1000;
constexpr std::int64_t kPublishMs = 200;
// No sync takes this long: the process was stopped, or the machine slept.
constexpr std::int64_t kStallMs = 3000;

// Returns true if a worker that has no room may have to be told. A group without a signal is
// dropped by the worker's own submission, and a checkpoint is news only once the run ends.
bool BringsNews(const Scheduler& scheduler, const LedgerChanges& changes) {
  const bool ends = scheduler.finished() || scheduler.stop_phase() != StopPhase::kNone;
  return !changes.orders.empty() || !changes.manifests.empty() || !changes.learners.empty() ||
         (ends && !changes.checkpoints.empty()) ||
         std::ranges::any_of(changes.groups, [](const GroupRow& group) {
           return group.state == GroupState::kDropped && group.reason != DropReason::kNoSignal;
         });
}

}  // namespace

CoordinatorLoop::CoordinatorLoop(Parts parts)
    : parts_(std::move(parts)),
      payload_sync_([&payloads = parts_.payloads] { return payloads.Sync(); }),
      queue_(kQueueBound),
      submissions_(kQueueBound),
      reports_(parts_.out),
      last_wake_ms_(parts_.clock.MonotonicMs()) {
  Publish(last_wake_ms_);  // so that a scrape before the first turn reads the ledger's counts
  thread_ = std::thread([this] { Run(); });
}

CoordinatorLoop::~CoordinatorLoop() {
  Drain();
  Stop().IgnoreError();
}

bool CoordinatorLoop::Post(LoopRequest* request) {
  if (!request->is_submission()) return queue_.Push(request, milliseconds(0));
  if (!submissions_.Push(request, milliseconds(0))) return false;
  // If there is no room for it the loop is awake.
  LoopRequest* wake = nullptr;
  if (!woken_.exchange(true)) queue_.Push(wake, milliseconds(0));
  return true;
}

void CoordinatorLoop::Drain() {
  draining_ = true;
  LoopRequest* wake = nullptr;
  queue_.Push(wake, milliseconds(kLongestWaitMs));
}

Status CoordinatorLoop::Stop() {
  BUTTRESS_CHECK(draining_, "Drain is called before Stop, so that long polls are answered");
  submissions_.Close();
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  return failed_;
}

void CoordinatorLoop::Run() {
  while (true) {
    parts_.metrics.metrics.health().Beat();
    const std::optional<LoopRequest*> first = queue_.Pop(milliseconds(WaitMs()));
    if (!first && queue_.closed() && submissions_.size() == 0 && parked_calls() == 0) break;
    const double began = MonotonicSeconds();
    RunTurn(first.value_or(nullptr));
    reports_.busy_seconds += MonotonicSeconds() - began;
  }
}

Turn CoordinatorLoop::BeginTurn(LedgerChanges& changes, std::int64_t now_ms) {
  return {
      parts_.terms,
      parts_.scheduler,
      parts_.prompts,
      parts_.payloads,
      parts_.metrics,
      changes,
      leased_prompts_,
      reports_,
      announced_,
      now_ms,
      draining_,
      parts_.scheduler.selects_prompts() ? std::numeric_limits<std::int64_t>::max() : kTurnPrompts};
}

void CoordinatorLoop::RunTurn(LoopRequest* first) {
  if (!failed_.ok() || !HasRoom()) return Refuse(first);
  LedgerChanges changes;
  Turn turn = BeginTurn(changes, NowMs());
  std::vector<Answer> answers;
  ApplyPosted(first, turn, answers);
  parts_.scheduler.Expire(applied_ms_, changes);
  AdmitPrompts(turn);
  // A plan may drop groups; that makes room for prompts, for which a parked worker may wait.
  do {
    ApplyParked(turn, answers);
  } while (AdmitPrompts(turn));
  if (Status status = turn.failed.ok() ? Persist(turn) : turn.failed; status.ok()) {
    NoteWritten(changes);
    // While requests wait the next turn begins at once, and publishing every turn would slow it.
    const bool idle = queue_.size() == 0 && submissions_.size() == 0;
    if (idle || turn.now_ms >= published_ms_ + kPublishMs) Publish(turn.now_ms);
    if (!turn.full.ok()) parts_.pause.Begin(turn.full, last_wake_ms_);
  } else {
    if (turn.failed.ok() && status.code() == StatusCode::kResourceExhausted) {
      unwritten_ = std::move(changes);
      parts_.pause.Begin(status, last_wake_ms_);
    } else {
      Fail(std::move(status));
    }
    // The state in memory is ahead of the ledger, so no caller may learn anything of it.
    for (Answer& answer : answers) answer.status = Refusal();
  }
  for (const Answer& answer : answers) answer.request->Answer(answer.status);
  ForgetEndedLeases();
}

void CoordinatorLoop::NoteWritten(const LedgerChanges& changes) {
  if (!changes.empty()) Failpoint("after_commit");
  if (!changes.plans.empty()) parts_.last_plan = changes.plans.back().collapse.step;
  if (!changes.checkpoints.empty() && !parts_.keep_payloads) DeleteSettledPayloads();
}

Status CoordinatorLoop::Refusal() const {
  return failed_.ok() ? PausedStatus(parts_.pause.why())
                      : Unavailable("the coordinator restarts: " + failed_.message());
}

bool CoordinatorLoop::HasRoom() {
  DiskPause& pause = parts_.pause;
  const std::int64_t now_ms = parts_.clock.MonotonicMs();
  if (!pause.paused()) return !pause.Check(now_ms);
  if (!pause.MayTry(now_ms)) return false;
  Status status = parts_.payloads.CheckRoom();
  if (status.ok()) status = parts_.ledger.Write(unwritten_);
  if (status.code() == StatusCode::kResourceExhausted) pause.Begin(status, now_ms);
  if (!status.ok() && status.code() != StatusCode::kResourceExhausted) Fail(status);
  if (!status.ok()) return false;
  NoteWritten(std::exchange(unwritten_, {}));
  pause.End(now_ms);
  stalled_ms_ += now_ms - last_wake_ms_;
  last_wake_ms_ = now_ms;
  return true;
}

void CoordinatorLoop::Refuse(LoopRequest* first) {
  const Status why = Refusal();
  LedgerChanges none;
  Turn turn = BeginTurn(none, last_wake_ms_ - stalled_ms_);
  turn.paused = parts_.pause.why();
  std::vector<Answer> answers;
  const auto refuse = [&](LoopRequest* request) {
    if (request == nullptr) return;
    const bool may_read = failed_.ok() && request->only_reads();
    answers.push_back({request, may_read ? request->Apply(turn, true).value_or(why) : why});
  };
  refuse(first);
  std::size_t taken = 1;
  for (; taken < kTurnCalls; ++taken) {
    const auto next = queue_.Pop(milliseconds(0));
    if (!next) break;
    refuse(*next);
  }
  NoteApplied(taken, turn.now_ms);
  woken_ = false;
  while (const auto next = submissions_.Pop(milliseconds(0))) refuse(*next);
  for (Parked& parked : parked_) {
    for (const auto& [deadline_ms, request] : parked) refuse(request);
    parked.clear();
  }
  for (const Answer& answer : answers) answer.request->Answer(answer.status);
}

void CoordinatorLoop::ApplyPosted(LoopRequest* first, Turn& turn, std::vector<Answer>& answers) {
  std::size_t taken = 0;
  for (std::optional<LoopRequest*> next = first; next;
       next = ++taken < kTurnCalls ? queue_.Pop(milliseconds(0)) : std::nullopt)
    ApplyOne(*next, turn, answers);
  NoteApplied(taken, turn.now_ms);
  woken_ = false;
  for (std::size_t n = 0; n < kTurnSubmissions; ++n) {
    const std::optional<LoopRequest*> next = submissions_.Pop(milliseconds(0));
    if (!next) break;
    ApplyOne(*next, turn, answers);
  }
}

void CoordinatorLoop::ApplyOne(LoopRequest* request, Turn& turn, std::vector<Answer>& answers) {
  if (request == nullptr) return;
  if (std::optional<Status> status = request->Apply(turn, request->hold_ms() == 0)) {
    answers.push_back({request, std::move(*status)});
    return;
  }
  const std::int64_t hold_ms = std::min(request->hold_ms(), parts_.terms.max_hold_ms);
  parked_[static_cast<std::size_t>(request->awaits())].emplace(turn.now_ms + hold_ms, request);
}

void CoordinatorLoop::NoteApplied(std::size_t count, std::int64_t now_ms) {
  marked_left_ -= std::min(marked_left_, count);
  if (marked_left_ > 0) return;
  applied_ms_ = marked_ms_;
  marked_ms_ = now_ms;
  marked_left_ = queue_.size();
  if (marked_left_ == 0) applied_ms_ = now_ms;
}

void CoordinatorLoop::ForgetEndedLeases() {
  if (leased_prompts_.size() < 2 * leased_prompts_kept_ + kTurnCalls) return;
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
  const std::int64_t wanted = std::min(WantedPrompts(), turn.may_draw);
  if (wanted <= 0 || !turn.failed.ok()) return false;
  const auto record = [this](std::uint64_t row) -> Result<PromptRecord> {
    if (const PromptRecord* newest = parts_.scheduler.FindRecord(row)) return *newest;
    return parts_.ledger.ReadPromptRecord(row);
  };
  const auto drawn = parts_.prompts.Draw(wanted, {record, parts_.scheduler.greso()});
  if (!drawn.ok()) {
    turn.failed = drawn.status();
    return false;
  }
  turn.may_draw -= wanted;
  parts_.scheduler.Remember(drawn->records);
  parts_.scheduler.Admit(drawn->prompts, drawn->skipped, parts_.prompts.cursors(), turn.changes);
  return true;
}

std::int64_t CoordinatorLoop::WantedPrompts() const {
  return draining_ ? 0 : parts_.scheduler.NeedsPrompts();
}

void CoordinatorLoop::ApplyParked(Turn& turn, std::vector<Answer>& answers) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const auto always = [] { return true; };
  for (Parked& parked : parked_)
    ApplyAll(parked, turn.draining ? kAll : turn.now_ms, turn, answers, always);
  auto& [news, groups, changes, untold] = parked_;
  if (!turn.changes.empty()) ApplyAll(changes, kAll, turn, answers, always);
  if (BringsNews(turn.scheduler, turn.changes)) {
    untold.merge(news);
    untold.merge(groups);
  }
  TellNews(turn, answers);
  ApplyAll(groups, kAll, turn, answers, [&turn] { return turn.scheduler.MayLease(); });
}

void CoordinatorLoop::TellNews(Turn& turn, std::vector<Answer>& answers) {
  Parked& untold = parked_[kUntold];
  for (std::size_t told = 0; told < kTurnTold && !untold.empty(); ++told) {
    auto next = untold.extract(untold.begin());
    LoopRequest* const request = next.mapped();
    if (auto status = ApplyAgain(request, next.key(), turn)) {
      answers.push_back({request, std::move(*status)});
    } else {
      parked_[static_cast<std::size_t>(request->awaits())].insert(std::move(next));
    }
  }
}

std::optional<Status> CoordinatorLoop::ApplyAgain(LoopRequest* request, std::int64_t deadline_ms,
                                                  Turn& turn) {
  if (request->cancelled()) return Cancelled("the caller has left");
  return request->Apply(turn, turn.draining || turn.now_ms >= deadline_ms);
}

template <class Wanted>
void CoordinatorLoop::ApplyAll(Parked& parked, std::int64_t deadline_ms, Turn& turn,
                               std::vector<Answer>& answers, Wanted wanted) {
  for (auto next = parked.begin();
       next != parked.end() && next->first <= deadline_ms && wanted();) {
    std::optional<Status> status = ApplyAgain(next->second, next->first, turn);
    if (status) answers.push_back({next->second, std::move(*status)});
    next = status ? parked.erase(next) : std::next(next);
  }
}

std::size_t CoordinatorLoop::parked_calls() const {
  std::size_t calls = 0;
  for (const Parked& parked : parked_) calls += parked.size();
  return calls;
}

Status CoordinatorLoop::Persist(const Turn& turn) {
  if (turn.changes.empty()) return OkStatus();
  const double begin = MonotonicSeconds();
  if (turn.payloads_appended) payload_sync_.Begin();
  Status status = parts_.ledger.Write(turn.changes, [this] {
    if (!payload_sync_.under_way()) return OkStatus();
    Status done = payload_sync_.Wait();
    Failpoint("before_commit");
    return done;
  });
  // The rows failed first: they may be written again only if the payloads are durable.
  if (payload_sync_.under_way()) {
    if (Status done = payload_sync_.Wait(); !done.ok()) status = std::move(done);
  }
  const double seconds = MonotonicSeconds() - begin;
  parts_.metrics.store_commit_seconds.Observe(seconds);
  reports_.ledger_seconds += seconds;
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

void CoordinatorLoop::PublishEnd() {
  const Scheduler& scheduler = parts_.scheduler;
  const std::uint64_t step = scheduler.run().checkpoint_step;
  const bool early = !scheduler.end_reason().empty();
  const bool ended = scheduler.finished() || early;
  const bool stopped = scheduler.stop_phase() == StopPhase::kDone && !early;
  finished_ = scheduler.finished() || (early && !scheduler.ended_before_start());
  if (ended == ended_ && stopped == stopped_) return;
  if (early) {
    Log(kInfo, "the learner has ended the run", {{"step", step}, {"why", scheduler.end_reason()}});
  } else if (ended) {
    Log(kInfo, "the run is finished", {{"steps", step}});
  } else if (stopped) {
    Log(kInfo, "the run is stopped", {{"checkpoint", step}});
  }
  ended_ = ended;
  stopped_ = stopped;
  parts_.metrics.run_finished.Set(ended && !early ? 1 : 0);
  parts_.metrics.run_stopped.Set(stopped || early ? 1 : 0);
}

void CoordinatorLoop::Publish(std::int64_t now_ms) {
  published_ms_ = now_ms;
  PublishEnd();
  parts_.metrics.parked_calls.Set(static_cast<double>(parked_calls()));
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
  if (submissions_.size() > 0 || !parked_[kUntold].empty()) return 0;
  if (parts_.pause.paused()) {
    const std::int64_t next_ms = parked_calls() > 0 ? 0 : parts_.pause.next_try_ms();
    return std::clamp<std::int64_t>(next_ms - parts_.clock.MonotonicMs(), 0, kLongestWaitMs);
  }
  if (failed_.ok() && WantedPrompts() > 0) return 0;
  std::int64_t next_ms = last_wake_ms_ - stalled_ms_ + kLongestWaitMs;
  if (const auto expiry = parts_.scheduler.NextExpiryMs()) next_ms = std::min(next_ms, *expiry);
  for (const Parked& parked : parked_) {
    if (!parked.empty()) next_ms = std::min(next_ms, parked.begin()->first);
  }
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
