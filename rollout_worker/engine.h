// The interface of inference engines. Implementations: embedded_engine (LibTorch), vllm (HTTP),
// and FakeEngine in tests/support.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/lease.h"
#include "lib/experience/partial.h"
#include "lib/experience/types.h"
#include "lib/policy/decode/sample_extras.h"
#include "lib/weights/manifest.h"
#include "rollout_worker/episodes/episode.h"

namespace buttress {

// Identifies one requested completion.
struct SampleId {
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;
  std::int32_t index = 0;

  LeaseRef lease() const { return {group_id, lease_epoch}; }

  auto operator<=>(const SampleId&) const = default;
};

struct SampleRequest {
  SampleId id;
  std::vector<std::int32_t> prompt_token_ids;
  SamplingParams sampling;  // the random stream of the sample depends only on `seed`
  // The oldest version that may sample it, for engines whose servers have different versions.
  PolicyVersion min_version = {};
  // The tokens that it begins with, and their versions, which may be older than min_version. They
  // do not end it; it has none if it begins with the prompt.
  PartialCompletion begun = {};
  SampleExtras extras = {};  // of `buttress serve`: the embedded engine alone knows them
  // The task of an episode (run.env); null for a completion of the prompt.
  std::shared_ptr<const EpisodeTask> task = nullptr;
};

// The result of one sample: finished (stop, length), failed (error), cancelled (abort), or given
// back because no server could sample it for some time (abort with kUnavailable), which is no fault
// of the sample. T tokens.
struct EngineResult {
  SampleId id;
  std::vector<std::int32_t> token_ids;  // [T], including the stop token
  std::vector<float> logprobs;          // [T], nats, under the distribution that was sampled
  std::vector<Segment> segments;        // in order; cover all tokens
  FinishReason finish_reason = FinishReason::kUnspecified;
  Status status;  // not OK if finish_reason is error
  // What extras ask for, under the distributions that they name: of each token, and of each token
  // of the prompt but the first.
  std::vector<std::vector<TokenLogprob>> top_logprobs = {};
  std::vector<PromptLogprob> prompt_logprobs = {};
  // What was sampled of an episode, in place of tokens, log-probs and segments; null for a
  // completion.
  std::shared_ptr<const Episode> episode = nullptr;

  // Tokens that the policy sampled for it.
  std::int64_t sampled_tokens() const {
    return episode ? episode->sampled_tokens() : static_cast<std::int64_t>(token_ids.size());
  }
};

// The state of one inference server.
struct ServerState {
  std::string url;
  bool healthy = false;            // according to the last health check
  bool serving = false;            // it has proven its weights and gets requests, or sleeps
  std::uint64_t weights_step = 0;  // of the version that it proved last
  std::int64_t losses = 0;         // times it went from serving to not serving, updates apart
  std::int64_t restarts = 0;       // times its process was another than before
  std::int64_t completions = 0;    // that it completed
  std::int64_t tokens = 0;         // that it sent

  bool operator==(const ServerState&) const = default;
};

struct EngineStats {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t generated_tokens = 0;  // of ended samples, whatever became of them
  std::int64_t cut_tokens = 0;        // of them, thrown away by the engine
  std::int64_t prompt_tokens = 0;
  // For external servers: the greatest difference from the learner's canaries in the last update,
  // nats, and the number of updates after which a server's weights had not changed.
  double canary_difference = 0;
  std::int64_t unchanged_weights = 0;
  // False while no external server serves and none loads weights.
  bool available = true;
  std::vector<ServerState> servers;  // empty for the embedded engine
};

// Thread-safe. An engine owns its threads.
class InferenceEngine {
 public:
  virtual ~InferenceEngine() = default;

  // Queues a sample for the running batch. kInvalidArgument for a sample that can never run,
  // kResourceExhausted when the queue is full. A sample whose prompt alone is too long for the
  // model is refused, or ends, with kOutOfRange.
  virtual Status Submit(SampleRequest request) = 0;

  // Cancels a sample; does nothing if it is unknown or finished.
  virtual void Cancel(SampleId id) = 0;

  // Waits up to `timeout` for results, each sample once; empty if there are none.
  virtual std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) = 0;

  // Returns the tokens that the unfinished samples have by now, those that they began with
  // included; samples without a token of their own may be missing. Their finish_reason is
  // kUnspecified. One thread at a time.
  virtual std::vector<EngineResult> Unfinished() { return {}; }

  // Replaces the weights between decode steps and blocks until that is done. What becomes of
  // running samples is run.async.in_flight, which an engine is made with. On failure the old
  // weights stay loaded. An engine with several servers returns once the first has the new weights;
  // the others follow. REQUIRES: `manifest.folder` is local and verified.
  virtual Status UpdateWeights(const WeightManifest& manifest) = 0;

  // Makes the current UpdateWeights return kCancelled instead of waiting for a server, because a
  // newer version is known; servers that load weights continue.
  virtual void InterruptUpdate() {}

  // Makes UpdateWeights, now and later, return kCancelled instead of waiting for a server.
  virtual void StopUpdates() {}

  // Asks the engine to leave the GPU to the learner (local.worker.vllm.launch.colocate) until the
  // next sample, and returns whether it has. Does nothing, and returns false, while a sample is
  // inside or UpdateWeights runs; later versions are loaded with the next sample. True for an
  // engine that shares no GPU.
  virtual bool Sleep() { return true; }

  // Returns the version that a sample submitted now would start with; of several servers, the
  // newest that any has proven.
  virtual PolicyVersion version() const = 0;

  virtual EngineStats stats() const = 0;
};

}  // namespace buttress
