// The turns of the coordinator: each applies requests to the scheduler, makes what they changed
// durable, and answers them. Without a thread, a wait or a clock of its own (coordinator_loop.h has
// the thread).
//
// A turn applies every request that waits and then every parked call that it may have an answer
// for, makes all of it durable at once (turn_store.h), and answers. The ledger is never behind an
// answer: a payload without a row in the ledger was never acknowledged. Long polls without an
// answer are parked until a turn has what they await, or until their deadline.
//
// A lease expires in a turn after the renewals that were posted before its deadline, because the
// turn applies them first. While the disk is full, calls that change the run are refused, to be
// tried again, and time stands still for leases (LeaseClock).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/loop/turn.h"
#include "coordinator/loop/turn_store.h"
#include "lib/base/os/clock.h"

namespace buttress {

// The time by which leases age and long polls end: the clock of the machine without the times in
// which no worker could renew its leases: pauses of the run, and stalls of this process. Not
// thread-safe.
class LeaseClock {
 public:
  // The longest time between two turns of a process that runs.
  static constexpr std::int64_t kLongestTurnMs = 4000;

  explicit LeaseClock(const Clock& clock) : clock_(clock), ticked_ms_(clock.MonotonicMs()) {}

  // Begins a turn. Returns the length of the stall before it, or 0 if there was none.
  std::int64_t Tick() {
    const std::int64_t now_ms = clock_.MonotonicMs();
    const std::int64_t away_ms = now_ms - ticked_ms_;
    ticked_ms_ = now_ms;
    if (away_ms <= kLongestTurnMs) return 0;
    skipped_ms_ += away_ms;
    return away_ms;
  }

  // Leaves out the time since the last turn.
  void Skip() {
    const std::int64_t now_ms = clock_.MonotonicMs();
    skipped_ms_ += now_ms - ticked_ms_;
    ticked_ms_ = now_ms;
  }

  // Returns the time of the last turn.
  std::int64_t now_ms() const { return ticked_ms_ - skipped_ms_; }

  // Returns how far away `at_ms` of this clock is.
  std::int64_t MsUntil(std::int64_t at_ms) const {
    return std::max<std::int64_t>(at_ms + skipped_ms_ - clock_.MonotonicMs(), 0);
  }

 private:
  const Clock& clock_;
  std::int64_t ticked_ms_;       // of the machine
  std::int64_t skipped_ms_ = 0;  // left out so far
};

// Where turns take their requests from.
class Inbox {
 public:
  virtual ~Inbox() = default;

  // Returns what was posted since the last call, in order.
  virtual std::vector<LoopRequest*> Take() = 0;

  // Returns whether nothing was posted since the last Take.
  virtual bool empty() const = 0;

  // Returns whether no lease is granted any more and long polls are answered.
  virtual bool draining() const = 0;

  // Is called before `request` is answered.
  virtual void Done(const LoopRequest& request) = 0;
};

// Not thread-safe but for finished() and stopped().
class LoopCore {
 public:
  struct Parts {
    RunTerms terms;
    Scheduler scheduler;
    PromptMix prompts;
    Ledger& ledger;
    PayloadStore& payloads;
    CoordinatorMetrics& metrics;
    const Clock& clock;
    CollapseCounts last_plan;  // collapse of the newest plan in the ledger
    bool keep_payloads = false;
    RunDisk disk;
    std::string out = {};             // the run's folder; empty: the learner's steps are not kept
    std::uint64_t archive_steps = 0;  // as TurnStore's
    Mirror* mirror = nullptr;         // as TurnStore's
  };

  // `inbox` outlives the core.
  LoopCore(Parts parts, Inbox& inbox);
  LoopCore(const LoopCore&) = delete;
  LoopCore& operator=(const LoopCore&) = delete;

  void RunTurn();

  // Returns the time until the next turn is due if nothing is posted, a second at most.
  std::int64_t WaitMs() const;

  // Returns whether calls that were taken wait for an answer.
  bool has_parked() const { return !parked_.empty() || !held_.empty(); }

  // Returns the error after which the process must end; OK without one.
  const Status& failed() const { return failed_; }

  // Returns true once the last step of the run is settled, or the learner has ended the run before
  // it. Where it did so before this start, the run may be about to be taken up: false. Thread-safe.
  bool finished() const { return finished_; }

  // Returns true once the checkpoint of an operator's stop is durable. Thread-safe.
  bool stopped() const { return stopped_; }

  const Scheduler& scheduler() const { return scheduler_; }

 private:
  using Answers = std::vector<std::pair<LoopRequest*, Status>>;

  // A long poll that has no answer yet.
  struct ParkedCall {
    LoopRequest* call;
    std::int64_t deadline_ms;
  };

  void ApplyTurn();
  Turn BeginTurn(LedgerChanges& changes);
  // Returns OK if a turn may change the run, otherwise the answer to those that would.
  Status MayChange();
  // Answers what waits with `why`, except calls that only read.
  void Refuse(const Status& why);
  // While a turn waits for the standby: answers calls that only read, with what is durable here,
  // and those that nobody awaits any more; holds the others for the next turn.
  void AnswerReads();
  // Returns what was held or posted, in order.
  std::vector<LoopRequest*> TakeAll();
  void ApplyPosted(Turn& turn, Answers& answers);
  void Park(LoopRequest* call, std::int64_t deadline_ms);
  // Visits the parked calls that are due or that the turn may have an answer for.
  void ApplyParked(Turn& turn, Answers& answers);
  void Reply(LoopRequest* request, const Status& status);
  // Draws prompts that the scheduler needs; returns true if it admitted any.
  bool AdmitPrompts(Turn& turn);
  std::int64_t WantedPrompts() const;
  // Ends the run of turns; returns the answer to all calls from now on.
  Status Fail(Status status);
  void Publish();
  void PublishEnd();

  Inbox& inbox_;
  RunTerms terms_;
  Scheduler scheduler_;
  PromptMix prompts_;
  Ledger& ledger_;
  PayloadStore& payloads_;
  CoordinatorMetrics& metrics_;
  TurnStore store_;
  LeaseClock clock_;
  std::vector<ParkedCall> parked_;  // by what they await, then by deadline
  std::vector<LoopRequest*> held_;  // by AnswerReads
  std::map<std::uint64_t, std::string> leased_prompts_;
  RunReports reports_;
  AnnouncedManifest announced_;
  std::int64_t published_ms_ = 0;
  Status failed_;
  std::atomic<bool> finished_ = false;
  std::atomic<bool> stopped_ = false;
  bool ended_ = false;  // finished, or ended early at any time
};

}  // namespace buttress
