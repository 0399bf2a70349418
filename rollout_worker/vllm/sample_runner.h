// Runs samples on the servers: assigns waiting samples to servers with room, checks the health and
// the pace of the servers, and decides what follows an attempt that ended. The tokens of an attempt
// that did not end well are kept, and the next one, on any server with the same or newer weights,
// continues behind them.
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/health_poller.h"
#include "rollout_worker/vllm/open_sample.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {

// Thread-safe. The runner's own thread alone uses http_ (except Wake), health_, pace_,
// waiting_ and running_.
class SampleRunner {
 public:
  SampleRunner(const VllmConfig& config, std::string api_key, ServerPool& pool,
               const Tokenizer* tokenizer, InFlight in_flight);
  ~SampleRunner();
  SampleRunner(const SampleRunner&) = delete;
  SampleRunner& operator=(const SampleRunner&) = delete;

  Status Submit(SampleRequest request);
  void Cancel(SampleId id);
  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout);
  EngineStats stats() const;
  std::vector<EngineResult> Unfinished();

  // Interrupts all attempts on the server, and returns when the runner's thread has done so. Their
  // samples wait with their tokens, or without (InFlight::kAbort). An attempt that reached a paused
  // server would complete under the next weights. REQUIRES: the pool gives the server no new ones.
  void Interrupt(std::size_t server);

  // Waits until all attempts on the server have ended, or it is lost. REQUIRES: as Interrupt.
  void Drain(std::size_t server);

  // Holds the attempts on a server that is paused: what they bring from here on counts only after
  // Continue, and is dropped by Interrupt or if the server is lost. Returns when the runner's
  // thread has done so. REQUIRES: as Interrupt.
  void Hold(std::size_t server);

  // Lets the attempts that Hold held continue under `version`, which the server has proven. Returns
  // as Hold does. REQUIRES: as Interrupt.
  void Continue(std::size_t server, const PolicyVersion& version);

  // Ends the runner's thread; Interrupt returns at once. Idempotent.
  void Stop();

  // Tells the runner that a server serves again.
  void Wake() { http_.Wake(); }

 private:
  using Place = std::list<OpenSample>::iterator;

  // What a thread that updates a server asks of the runner's thread.
  enum class OrderKind { kInterrupt, kHold, kContinue };

  struct Order {
    OrderKind kind = OrderKind::kInterrupt;
    PolicyVersion version = {};  // kContinue
  };

  // Gives an order and waits until it is done.
  void Give(std::size_t server, Order order);

  void Run();
  // Moves submitted samples into waiting_. Returns false when the thread stops.
  bool AddSubmitted();
  void CancelSamples();
  void ReportUnfinished();
  // Marks the servers as lost that hang or are slow.
  void MarkSlow();
  // Interrupts the attempts on lost servers, and does what Interrupt, Hold and Continue ask for.
  void ObeyOrders();
  void Obey(const Order& order, Place sample);
  void InterruptAttempt(Place sample, bool restart);
  // Ends the samples that no server could take for some time.
  void EndUnserved();
  void BeginWaiting();
  // Returns false if no server has room.
  bool Begin(Place sample);
  Status ReadBytes(OpenSample& sample, std::string_view bytes);
  void EndAttempt(Place sample, Result<HttpReply> reply);
  // Moves a running sample into waiting_, before those that have not begun.
  void MoveToWaiting(Place sample);
  // The same, of an attempt that has not ended.
  void StopAttempt(Place sample);
  // Counts tokens that will not be delivered.
  void CountCut(std::int64_t tokens);
  // Lets the sample wait for another attempt, or ends it with an error.
  void Retry(Place sample, const Status& why);
  void End(Place sample, EngineResult result);
  void Deliver(EngineResult result);
  std::int64_t WaitMs() const;

  const VllmConfig config_;
  const std::string api_key_;
  ServerPool& pool_;
  const Tokenizer* const tokenizer_;
  const InFlight in_flight_;

  HttpClient http_;
  HealthPoller health_;
  PaceWatch pace_;
  std::list<OpenSample> waiting_;
  std::list<OpenSample> running_;
  std::int64_t looked_back_ms_ = 0;  // when EndUnserved looked last

  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::map<std::size_t, Order> orders_ GUARDED_BY(mutex_);  // by server; until they are done
  std::deque<OpenSample> submitted_ GUARDED_BY(mutex_);
  std::vector<SampleId> cancelled_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  bool unfinished_wanted_ GUARDED_BY(mutex_) = false;
  std::optional<std::vector<EngineResult>> unfinished_ GUARDED_BY(mutex_);
  std::size_t inside_ GUARDED_BY(mutex_) = 0;  // samples submitted and not yet returned by Poll
  EngineStats stats_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
