// The engine that generates on vLLM servers, with one streamed HTTP request for each completion.
#pragma once

#include <memory>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Loads `model.path`, which must be visible to the machines of the servers, into each of them. A
// server must not be shared with another worker. Returns once every server serves or has failed,
// and waits for a first one for `config.launch.ready_ms` where the run starts them; servers that
// are down follow when they come up, if one serves. A server whose settings are wrong
// is refused with what to set. With launch.colocate they sleep until the first sample, because the
// learner may train.
//
// Each server is brought to new weights by itself, and gets completions under them only once its
// canary completions are within a bound of the learner's, which are in the manifest. Completions in
// flight on it do as `in_flight` says: they are interrupted and continue behind their tokens, on
// any server whose version is the same or newer, as a further segment; go on with the keys and
// values that the server has; end before the update; or start again. A server that fails, hangs or
// is slow is lost until it has proven the newest weights, and its completions continue elsewhere.
// `tokenizer` finds stop strings, whatever the servers do with them, and must outlive the engine;
// if it is null, samples with stop strings are refused.
//
// With `adapters`, versions are of adapters: the servers keep the weights that they were started
// with, which must be those of `model`, because vLLM loads none below adapters.
//
// A server that stays in NCCL is restarted by way of `out`, the folder of the run, if the run has
// started it; empty: none is.
Result<std::unique_ptr<InferenceEngine>> MakeVllmEngine(
    const ModelPathConfig& model, const VllmConfig& config, PolicyVersion initial,
    const Tokenizer* tokenizer = nullptr, bool adapters = false,
    InFlight in_flight = InFlight::kRecompute, const std::string& out = "");

}  // namespace buttress
