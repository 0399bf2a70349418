// The engine that generates on vLLM servers, with one streamed HTTP request for each completion.
#pragma once

#include <memory>

#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Probes every server and loads `model.path`, which must be visible to their machines. A server
// must not be shared with another worker.
//
// After each weight update, a server gets completions only if its canary completions are within a
// bound of the learner's, which are in the manifest. Completions in flight are interrupted at the
// update; under kKeep they continue behind their tokens under the new weights, as a further
// segment. A server that fails is lost until it has loaded the weights again and passed the
// canaries. `tokenizer` finds stop strings, whatever the servers do with them, and must outlive the
// engine; if it is null, samples with stop strings are refused.
Result<std::unique_ptr<InferenceEngine>> MakeVllmEngine(const ModelPathConfig& model,
                                                        const VllmConfig& config,
                                                        PolicyVersion initial,
                                                        const Tokenizer* tokenizer = nullptr);

}  // namespace buttress
