// The coordinator's one thread: applies requests to the scheduler, writes what they changed, then
// answers them.
//
// Each turn takes everything that waits in the queue, applies it, and makes all of it durable with
// one sync (group commit): while one turn is being synced the next one gathers. A call is answered
// only after what it changed is durable. Groups that come in are durable in the payload files, from
// which a restart takes them again (submission.h); their rows enter the ledger in the background,
// and at the latest in the transaction of the next turn that changes anything else. Calls that have
// nothing to say yet (long polls) are parked and asked again when a turn has changed what concerns
// them, until their deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/prompt_source.h"
#include "coordinator/scheduler.h"
#include "lib/base/bounded_queue.h"
#include "lib/base/clock.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// What every request may ask about the run; constant.
struct RunTerms {
  std::string run_name;
  std::string config_sha256;
  std::uint64_t seed = 1;
  SamplingParams sampling;
  // Of a long poll: leases are renewed by calls, so none may outlast them.
  std::int64_t max_hold_ms = 10000;
};

// What a request sees while it is applied.
struct Turn {
  const RunTerms& terms;
  Scheduler& scheduler;
  PromptSource& prompts;
  PayloadStore& payloads;
  CoordinatorMetrics& metrics;
  LedgerBatch& changes;
  std::int64_t now_ms = 0;
  bool draining = false;  // no new leases, long polls are answered
  bool payloads_appended = false;
  Status failed = {};  // set by what must end the process
};

struct Command {
  // Applies the request. Nothing: it has no answer yet; never so with `last`, nor when the turn is
  // draining.
  std::function<std::optional<Status>(Turn& turn, bool last)> apply;
  // Answers the call, on the loop's thread.
  std::function<void(const Status& status)> finish;
  // True once nobody waits for the answer; may be empty.
  std::function<bool()> cancelled;
  // How long it may be parked.
  std::int64_t hold_ms = 0;
  // Whether a parked command should be asked again after these changes; empty: after any.
  std::function<bool(const LedgerBatch& changes)> concerned;
};

class CoordinatorLoop {
 public:
  struct Parts {
    RunTerms terms;
    Scheduler scheduler;
    PromptSource prompts;
    Ledger& ledger;
    PayloadStore& payloads;
    CoordinatorMetrics& metrics;
    const Clock& clock;
    CollapseCounts last_batch;  // of the newest plan in the ledger
    bool keep_payloads = false;
  };

  // Starts the thread.
  explicit CoordinatorLoop(Parts parts);
  ~CoordinatorLoop();
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  // False when the queue is full or closed; `command` is then unchanged. Thread-safe.
  bool Post(Command& command);

  // Stops leasing and answers every long poll; other calls are served on. Thread-safe.
  void Drain();

  // Answers what has been posted, ends the thread, and gives what made it fail, if something did.
  // REQUIRES: Drain().
  Status Stop();

  // The run's last step is settled. Thread-safe.
  bool finished() const { return finished_; }

 private:
  struct Answer {
    Command command;
    Status status;
  };

  struct Parked {
    Command command;
    std::int64_t deadline_ms;
  };

  void Run();
  void RunTurn(std::optional<Command> first);
  void Apply(Command command, Turn& turn, std::vector<Answer>& answers);
  // True if prompts were admitted.
  bool AdmitPrompts(Turn& turn);
  void AskParkedAgain(Turn& turn, std::vector<Answer>& answers);
  // Takes the turn's changes.
  Status Persist(Turn& turn);
  void Fail(Status status);
  // Begins to write what the ledger is behind, if there is enough of it or it is old.
  void StartCatchUp(std::int64_t now_ms);
  // Waits for the write that StartCatchUp began.
  Status EndCatchUp();
  void DeleteSettledPayloads();
  void Publish(std::int64_t now_ms);
  std::int64_t WaitMs() const;
  std::int64_t NowMs();

  Parts parts_;
  BoundedQueue<Command> queue_;
  std::vector<Parked> parked_;
  LedgerBatch behind_;  // durable, not in the ledger yet
  std::int64_t behind_since_ms_ = 0;
  std::future<Status> catch_up_;  // writes what was behind before
  std::int64_t last_wake_ms_;
  std::int64_t published_ms_ = 0;
  std::size_t counted_workers_ = 0;
  std::int64_t counted_workers_ms_ = 0;
  std::int64_t stalled_ms_ = 0;  // in which this process did not run; leases do not age in it
  Status failed_;                // read after the thread has ended
  std::atomic<bool> draining_ = false;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace buttress
