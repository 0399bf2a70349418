// Our own engine: a Generator over the Transformer, on a thread of its own, in this process.
#pragma once

#include <memory>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Loads model.path as policy version `initial`. Takes four times worker.max_running samples before
// Submit gives kResourceExhausted. LibTorch's errors end the samples in flight with finish_reason
// error; the engine lives on.
Result<std::unique_ptr<InferenceEngine>> MakeEmbeddedEngine(const ModelPathConfig& model,
                                                            const WorkerConfig& worker,
                                                            PolicyVersion initial);

}  // namespace buttress
