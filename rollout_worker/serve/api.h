// The routes of `buttress serve`.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/bounded_queue.h"
#include "lib/base/web/api_port.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/openai/engine_hub.h"
#include "rollout_worker/serve/served_model.h"
#include "rollout_worker/serve/weight_calls.h"

namespace buttress {

struct ServeOptions {
  std::string listen;
  std::vector<std::string> keys = {};  // of those who may call; empty: everyone may
  bool weight_calls = false;
};

// Thread-safe.
class ServeApi {
 public:
  // Listens. `engine` and `model` outlive it. kUnavailable if the port is taken.
  static Result<std::unique_ptr<ServeApi>> Start(const ServeOptions& options,
                                                 InferenceEngine& engine, const ServedModel& model);

  // For Start.
  ServeApi(const ServeOptions& options, InferenceEngine& engine, const ServedModel& model);

  // Ends the calls that are open.
  ~ServeApi();

  int port() const { return port_->port(); }

  // Refuses new calls for completions with 503. Those that are open go on.
  void Drain() { draining_ = true; }

  // Completions that are open.
  std::int64_t open() const { return hub_.open(); }

  // Calls whose answers are not sent yet, also those whose completions have ended.
  std::int64_t calls() const { return port_->open(); }

 private:
  void Answer(const std::shared_ptr<ApiCall>& call);
  bool AnswerOpenly(ApiCall& call);
  bool AnswerGet(ApiCall& call) const;
  void Refuse(ApiCall& call, const Status& status);
  bool Admits(const ApiCall& call) const;
  void Run();
  Status AnswerPost(const std::shared_ptr<ApiCall>& call);
  Status Tokenize(ApiCall& call) const;
  Status Detokenize(ApiCall& call) const;
  std::string Routes() const;

  InferenceEngine& engine_;
  const ServedModel& model_;
  ServeMetrics metrics_;
  EngineHub hub_;
  std::unique_ptr<WeightCalls> weight_calls_;  // null: they are refused
  std::vector<std::string> key_digests_;
  BoundedQueue<std::shared_ptr<ApiCall>> posts_;  // whose texts are still to be encoded
  std::atomic<bool> draining_ = false;
  std::thread thread_;
  std::unique_ptr<ApiPort> port_;
};

}  // namespace buttress
