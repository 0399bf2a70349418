// The engine that generates in the process of the worker, on a thread of its own.
#pragma once

#include <memory>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Loads model.path as policy version `initial`. The engine accepts four times worker.max_running
// samples; beyond that, Submit returns kResourceExhausted. An error of LibTorch ends the samples in
// flight with finish reason kError; the engine stays usable. UpdateWeights reads on the thread of
// its caller while samples are generated; until it returns, the old weights and the new ones are in
// memory. Samples in flight then do as `in_flight` says. `tokenizer` finds stop strings and must
// outlive the engine; if it is null, samples with stop strings fail.
Result<std::unique_ptr<InferenceEngine>> MakeEmbeddedEngine(
    const ModelPathConfig& model, const WorkerConfig& worker, PolicyVersion initial,
    const Tokenizer* tokenizer = nullptr, InFlight in_flight = InFlight::kRecompute);

}  // namespace buttress
