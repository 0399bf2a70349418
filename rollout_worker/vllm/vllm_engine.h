// Completions from vLLM servers over HTTP: one streamed request per completion, on a thread of the
// engine's own.
#pragma once

#include <memory>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Probes every server and loads `model.path` into it (the servers' machines must see that path).
// After each update a server's canary completions must be within a bound of the learner's, which
// came with the manifest, before a completion is asked of it. What is in flight when weights change
// is cut at the pause; under kKeep it goes on from its tokens under the new weights, as a further
// segment. A server that fails is lost until it has been loaded again and its canaries prove it.
// One worker per server.
Result<std::unique_ptr<InferenceEngine>> MakeVllmEngine(const ModelPathConfig& model,
                                                        const VllmConfig& config,
                                                        PolicyVersion initial);

}  // namespace buttress
