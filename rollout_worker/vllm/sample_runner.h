// Runs samples on the servers: assigns waiting samples to servers with room, checks the health of
// the servers, and decides what follows an attempt that ended.
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/sync.h"
#include "lib/config/run_config.h"
#include "lib/http/http_client.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/health_poller.h"
#include "rollout_worker/vllm/open_sample.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {

// Thread-safe. The runner's own thread alone uses http_ (except Wake), health_, waiting_ and
// running_.
class SampleRunner {
 public:
  SampleRunner(const VllmConfig& config, std::string api_key, ServerPool& pool,
               PolicyVersion version, const Tokenizer* tokenizer);
  ~SampleRunner();
  SampleRunner(const SampleRunner&) = delete;
  SampleRunner& operator=(const SampleRunner&) = delete;

  Status Submit(SampleRequest request);
  void Cancel(SampleId id);
  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout);
  EngineStats stats() const;
  PolicyVersion version() const;

  // Stops new attempts until Resume. Returns when the runner's thread has done so.
  void Pause();

  // As Pause, and returns when all attempts have ended. An attempt that reached a paused server
  // would complete under the next weights.
  void Drain();

  // Interrupts all attempts. Under kKeep their samples wait with their tokens; under kAbort they
  // end. Returns when the runner's thread has done so. REQUIRES: Pause.
  void Interrupt(InFlight in_flight);

  // Allows new attempts, under `version`.
  void Resume(PolicyVersion version);

  // Tells the runner that a server serves again.
  void Wake() { http_.Wake(); }

 private:
  enum class Order { kNone, kPause, kDrain, kInterruptAndKeep, kInterruptAndAbort };
  using Place = std::list<OpenSample>::iterator;

  void Run();
  // Moves submitted samples into waiting_. Returns false when the thread stops.
  bool AddSubmitted();
  void CancelSamples();
  void ExecuteOrder();
  void GiveOrder(Order order);
  void InterruptAll(bool abort);
  // Ends the attempts on servers that failed a health check.
  void AbandonUnhealthy();
  void BeginWaiting();
  // Returns false if no server has room.
  bool Begin(Place sample);
  void EndAttempt(Place sample, Result<HttpReply> reply);
  // Retries the sample later, or ends it with an error.
  void Retry(Place sample, const Status& why);
  void Deliver(EngineResult result);
  std::int64_t WaitMs() const;

  const VllmConfig config_;
  const std::string api_key_;
  ServerPool& pool_;
  const std::size_t queue_limit_;
  const Tokenizer* const tokenizer_;
  std::int64_t max_model_len_ = 0;  // the smallest among the servers

  HttpClient http_;
  HealthPoller health_;
  std::list<OpenSample> waiting_;
  std::list<OpenSample> running_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool paused_ GUARDED_BY(mutex_) = false;
  Order order_ GUARDED_BY(mutex_) = Order::kNone;
  PolicyVersion version_ GUARDED_BY(mutex_);
  std::deque<OpenSample> submitted_ GUARDED_BY(mutex_);
  std::vector<SampleId> cancelled_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  std::size_t inside_ GUARDED_BY(mutex_) = 0;  // samples submitted and not yet returned by Poll
  EngineStats stats_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
