// The calls by which a trainer brings a server new weights, as vLLM has them.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "lib/base/report/status.h"
#include "lib/base/thread/bounded_queue.h"
#include "lib/base/thread/sync.h"
#include "lib/base/web/api_port.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/openai/engine_hub.h"
#include "rollout_worker/serve/served_model.h"

namespace buttress {

// Thread-safe.
class WeightCalls {
 public:
  // The arguments outlive it.
  WeightCalls(InferenceEngine& engine, EngineHub& hub, const ServedModel& model);

  // Waits for an update under way.
  ~WeightCalls();
  WeightCalls(const WeightCalls&) = delete;
  WeightCalls& operator=(const WeightCalls&) = delete;

  // Answers the call, at once or later, or returns false if its path is none of these:
  //   GET /server_info, /weight_info
  //   POST /pause?mode=abort, /resume, /reset_prefix_cache, /update_weight_version
  //   POST /collective_rpc {"method": "reload_weights", "kwargs": {"weights_path": FOLDER}}
  bool Answer(const std::shared_ptr<ApiCall>& call);

 private:
  struct Load {
    std::shared_ptr<ApiCall> call;
    std::string folder;
  };

  void Run();
  Status Post(const std::shared_ptr<ApiCall>& call);
  Status Reload(const std::shared_ptr<ApiCall>& call);

  InferenceEngine& engine_;
  EngineHub& hub_;
  const ServedModel& model_;
  BoundedQueue<Load> loads_{4};
  Mutex mutex_;
  std::string tag_ GUARDED_BY(mutex_) = "default";  // that the trainer gave the weights
  std::thread thread_;
};

}  // namespace buttress
