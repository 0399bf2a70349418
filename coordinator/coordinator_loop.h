// The coordinator's one thread: it applies requests to the scheduler, makes what they changed
// durable, and answers them.
//
// A turn applies what waits, makes all of it durable (group commit), and then answers:
//
//   1. Apply each call to the scheduler, then some submissions, and append their payloads.
//   2. Sync the segment once (fdatasync), and meanwhile write every row that the turn changed in
//      one transaction of the ledger, which commits after that sync.
//   3. Answer.
//
// Requests that arrive during a turn wait for the next one; submissions, which may wait in long
// lines, let all other calls pass, so that these take two turns at most. The ledger is never behind
// an answer: a payload without a row in the ledger was never acknowledged. Calls that have no
// answer yet (long polls) are parked; a parked call is applied again in a turn that brings what it
// awaits, and answered at its deadline at the latest. A turn touches no other parked call. News for
// all workers are told to some of them in a turn, so that other calls need not wait for a thousand.
//
// While the disk is full the run is paused (disk_pause.h): calls that change it are refused, to be
// tried again, time stands still for leases, and what a turn could not write is kept and written
// first. The scheduler is ahead of the ledger then; only an operator's look at the run tells of it.
//
// A lease expires once every request that was posted before its deadline has been applied, because
// one of them may renew it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "buttress/v1/weights.pb.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/disk_pause.h"
#include "coordinator/payload_sync.h"
#include "coordinator/prompt_mix.h"
#include "coordinator/run_reports.h"
#include "coordinator/scheduler.h"
#include "lib/base/bounded_queue.h"
#include "lib/base/clock.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// The constants of the run that requests read.
struct RunTerms {
  std::string start_id;  // of this start of the coordinator
  std::string run_name;
  std::string config_sha256;
  std::uint64_t seed = 1;
  SamplingParams sampling;
  // Of sources whose completions have another bound than `sampling`.
  std::map<std::string, std::int32_t> max_tokens = {};
  std::int64_t max_hold_ms = 10000;  // bound of a long poll: its caller renews leases between calls
};

// The manifest of the newest weights, which every worker is told: parsed once.
struct AnnouncedManifest {
  PolicyVersion version;
  v1::WeightManifest manifest;

  // Makes this the manifest of `weights`. kDataLoss if its bytes are none.
  Status Parse(const PublishedWeights& weights);
};

// What a request reads and changes while it is applied.
struct Turn {
  const RunTerms& terms;
  Scheduler& scheduler;
  PromptMix& prompts;
  PayloadStore& payloads;
  CoordinatorMetrics& metrics;
  LedgerChanges& changes;
  std::map<std::uint64_t, std::string>& leased_prompts;  // digest of the tokens, by leased group
  RunReports& reports;
  AnnouncedManifest& announced;
  std::int64_t now_ms = 0;
  bool draining = false;           // no new leases are granted and long polls are answered
  std::int64_t may_draw = 0;       // prompts
  bool payloads_appended = false;  // set by a request that appends a payload
  std::string paused = {};         // why the run is paused, while only reads are applied
  Status full = {};                // set by a request that finds the disk full
  Status failed = {};              // set by a request after which the process must end
};

// What brings the answer to a parked call.
enum class Awaited : std::uint8_t {
  kNews,  // a worker with nothing to do but what it has: weights, orders, groups that were dropped
  kGroups,   // the same, or a group to lease
  kChanges,  // anything that changes the run; few calls wait for this
};

inline constexpr std::size_t kAwaited = 3;
// Behind the lists of parked calls by what they await: those that have not been told the news yet.
inline constexpr std::size_t kUntold = kAwaited;

// A call that waits for the loop. The loop calls all methods on its own thread. The object lives
// until Answer is called.
class LoopRequest {
 public:
  virtual ~LoopRequest() = default;

  // Applies the request to the run and returns its answer, or nullopt to keep a long poll parked.
  // REQUIRES: returns an answer if `last` or if the turn is draining.
  virtual std::optional<Status> Apply(Turn& turn, bool last) = 0;

  // Returns true for a group, which other calls pass.
  virtual bool is_submission() const { return false; }

  // Returns what a request waits for that is parked.
  virtual Awaited awaits() const { return Awaited::kChanges; }

  // Returns true for a call that changes nothing and is never parked; a pause does not refuse it.
  virtual bool only_reads() const { return false; }

  // How long the request may be parked, in milliseconds.
  virtual std::int64_t hold_ms() const { return 0; }

  // Returns true once nobody waits for the answer.
  virtual bool cancelled() const = 0;

  // Receives the answer once everything that Apply changed is durable. May delete the request.
  virtual void Answer(const Status& status) = 0;
};

class CoordinatorLoop {
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
    DiskPause pause;
    std::string out = {};  // the run's folder; empty: the learner's steps are not kept
  };

  // Starts the thread.
  explicit CoordinatorLoop(Parts parts);
  ~CoordinatorLoop();
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  // Queues a request. Returns false, without keeping it, if the queue is full or closed.
  // Thread-safe.
  bool Post(LoopRequest* request);

  // Stops leasing and answers every long poll; other calls are still served. Thread-safe.
  void Drain();

  // Answers what was posted, ends the thread, and returns the error that stopped the loop, if there
  // was one. REQUIRES: Drain() was called.
  Status Stop();

  // Returns true once the last step of the run is settled, or the learner has ended the run before
  // it. Where it did so before this start, the run may be about to be taken up: false. Thread-safe.
  bool finished() const { return finished_; }

  // Returns true once the checkpoint of an operator's stop is durable. Thread-safe.
  bool stopped() const { return stopped_; }

 private:
  struct Answer {
    LoopRequest* request;
    Status status;
  };

  using Parked = std::multimap<std::int64_t, LoopRequest*>;  // by deadline

  void PublishEnd();
  void Run();
  void RunTurn(LoopRequest* first);
  Turn BeginTurn(LedgerChanges& changes, std::int64_t now_ms);
  // Begins or ends a pause, as the disk asks for. Returns false while it lasts, or if it ended with
  // a failure.
  bool HasRoom();
  // Refuses what waits, but answers calls that only read.
  void Refuse(LoopRequest* first);
  // Returns why calls are refused: because of a failure, or of a pause.
  Status Refusal() const;
  // What follows from changes that are durable.
  void NoteWritten(const LedgerChanges& changes);
  void ApplyPosted(LoopRequest* first, Turn& turn, std::vector<Answer>& answers);
  void ApplyOne(LoopRequest* request, Turn& turn, std::vector<Answer>& answers);
  // Notes that `count` requests were taken out of the queue.
  void NoteApplied(std::size_t count, std::int64_t now_ms);
  void ApplyParked(Turn& turn, std::vector<Answer>& answers);
  // Applies some of the calls that the turn, or one before it, brings news.
  void TellNews(Turn& turn, std::vector<Answer>& answers);
  // Applies a parked call; nullopt if it stays parked.
  static std::optional<Status> ApplyAgain(LoopRequest* request, std::int64_t deadline_ms,
                                          Turn& turn);
  // Applies the calls of `parked` with deadlines up to `deadline_ms`, as long as `wanted` holds.
  template <class Wanted>
  static void ApplyAll(Parked& parked, std::int64_t deadline_ms, Turn& turn,
                       std::vector<Answer>& answers, Wanted wanted);
  std::size_t parked_calls() const;
  // Draws prompts that the scheduler needs; returns true if it admitted any. Where results of
  // groups decide what is drawn, all of them at once: otherwise the draws would depend on what
  // comes in between.
  bool AdmitPrompts(Turn& turn);
  std::int64_t WantedPrompts() const;
  // Makes the turn's payloads and changes durable.
  Status Persist(const Turn& turn);
  // Keeps the memory of leases within a multiple of those that are held.
  void ForgetEndedLeases();
  void Fail(Status status);
  void DeleteSettledPayloads();
  void Publish(std::int64_t now_ms);
  std::int64_t WaitMs() const;
  std::int64_t NowMs();

  Parts parts_;
  PayloadSync payload_sync_;
  BoundedQueue<LoopRequest*> queue_;  // a null pointer only wakes the loop
  BoundedQueue<LoopRequest*> submissions_;
  std::atomic<bool> woken_ = false;  // `queue_` has a null pointer for `submissions_`
  std::array<Parked, kAwaited + 1> parked_;
  std::map<std::uint64_t, std::string> leased_prompts_;
  RunReports reports_;
  AnnouncedManifest announced_;
  std::size_t leased_prompts_kept_ = 0;  // when the ended ones were last forgotten
  std::int64_t last_wake_ms_;
  std::int64_t published_ms_ = 0;
  std::size_t counted_workers_ = 0;
  std::int64_t counted_workers_ms_ = 0;
  std::int64_t marked_ms_ = 0;  // a moment, and how many of the requests posted before it are left
  std::size_t marked_left_ = 0;
  std::int64_t applied_ms_ = 0;  // all requests that were posted before this have been applied
  std::int64_t stalled_ms_ = 0;  // time without turns; leases do not age in it
  LedgerChanges unwritten_;      // of the turn that found the disk full
  Status failed_;                // other threads read it after the loop's thread has ended
  std::atomic<bool> draining_ = false;
  std::atomic<bool> finished_ = false;
  bool ended_ = false;  // finished, or ended early at any time
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace buttress
