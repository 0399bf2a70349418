// The engine's thread: keeps every server busy with the samples that wait, looks after the servers'
// health, and decides what becomes of an attempt that ended.
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

// Thread-safe. Its thread alone touches http_, health_, waiting_ and running_.
class SampleRunner {
 public:
  SampleRunner(const VllmConfig& config, std::string api_key, ServerPool& pool,
               PolicyVersion version);
  ~SampleRunner();
  SampleRunner(const SampleRunner&) = delete;
  SampleRunner& operator=(const SampleRunner&) = delete;

  Status Submit(SampleRequest request);
  void Cancel(SampleId id);
  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout);
  EngineStats stats() const;
  PolicyVersion version() const;

  // No attempt begins until Go. Returns when that is so.
  void Hold();
  // Hold, and all attempts have ended: one that reaches a paused server would complete under the
  // weights that come next.
  void Drain();
  // Cuts all attempts; kKeep: they wait with their tokens, kAbort: their samples end. Returns when
  // that is done. REQUIRES: Hold.
  void Cut(InFlight in_flight);
  // Attempts begin again, under `version`.
  void Go(PolicyVersion version);

  // A server has become free.
  void Wake() { http_.Wake(); }

 private:
  enum class Order { kNone, kHold, kDrain, kCutKeep, kCutAbort };
  using Place = std::list<OpenSample>::iterator;

  void Run();
  bool TakeSubmitted();
  void TakeCancelled();
  void TakeOrder();
  void Give(Order order);
  void CutAll(bool abort);
  // What runs on a server that failed its health check is tried again.
  void LeaveUnhealthy();
  void BeginWaiting();
  bool Begin(Place sample);
  void EndAttempt(Place sample, Result<HttpReply> reply);
  // The one place that decides whether a sample is tried again.
  void Retry(Place sample, const Status& why);
  void Deliver(EngineResult result);
  std::int64_t WaitMs() const;

  const VllmConfig config_;
  const std::string api_key_;
  ServerPool& pool_;
  const std::size_t queue_limit_;
  std::int64_t max_model_len_ = 0;  // the smallest of all servers

  HttpClient http_;
  HealthPoller health_;
  std::list<OpenSample> waiting_;
  std::list<OpenSample> running_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool held_ GUARDED_BY(mutex_) = false;
  Order order_ GUARDED_BY(mutex_) = Order::kNone;
  PolicyVersion version_ GUARDED_BY(mutex_);
  std::deque<OpenSample> submitted_ GUARDED_BY(mutex_);
  std::vector<SampleId> cancelled_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  std::size_t inside_ GUARDED_BY(mutex_) = 0;  // submitted and not yet given out by Poll
  EngineStats stats_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace buttress
