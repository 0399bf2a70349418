// The coordinator's one thread: applies requests to the scheduler, writes what they changed, then
// answers them.
//
// A turn applies everything that waits in the queue, makes all of it durable (group commit), and
// then answers:
//
//   1. Apply each request to the scheduler; payloads of accepted groups are appended to the segment.
//   2. One fdatasync of the segment.
//   3. One transaction of the ledger with every row that the turn changed.
//   4. Answer.
//
// Requests that arrive during a turn wait for the next one. The ledger is never behind an answer: a
// payload without a row in the ledger was never acknowledged. Calls that have no answer yet (long
// polls) are parked; a parked call is applied again after a turn that concerns it, and answered at
// its deadline at the latest.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  LedgerChanges& changes;
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
  std::function<bool(const LedgerChanges& changes)> concerned;
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
  // Makes the turn's payloads and changes durable.
  Status Persist(const Turn& turn);
  void Fail(Status status);
  void DeleteSettledPayloads();
  void Publish(std::int64_t now_ms);
  std::int64_t WaitMs() const;
  std::int64_t NowMs();

  Parts parts_;
  BoundedQueue<Command> queue_;
  std::vector<Parked> parked_;
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
