// What generates completions. Implementations: embedded (LibTorch, here), vllm (HTTP), and
// FakeEngine in tests/support.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/weights/manifest.h"

namespace buttress {

// A sample is one completion asked for: (group, lease epoch, index).
struct SampleId {
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;
  std::int32_t index = 0;

  auto operator<=>(const SampleId&) const = default;
};

struct SampleRequest {
  SampleId id;
  std::vector<std::int32_t> prompt_token_ids;
  SamplingParams sampling;  // seed is the sample's own: its stream depends on nothing else
};

// Finished (stop, length), failed (error) or cancelled (abort), each sample once. Not scored yet.
struct EngineResult {
  SampleId id;
  Completion completion;
  Status status;  // why it failed, for finish_reason error
};

// What becomes of samples in flight when weights change: go on under the new policy, abort, or
// finish under the old one first.
enum class InFlight { kKeep, kAbort, kDrain };

// A server that completions are asked of.
struct ServerState {
  std::string url;
  bool healthy = false;  // by its last health check
  bool serving = false;  // it has the current weights and gets completions

  bool operator==(const ServerState&) const = default;
};

struct EngineStats {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t prompt_tokens = 0;
  // Where weights are loaded into servers of another make: the last update's greatest difference
  // from the learner's canaries, nats, and updates after which a server's had not changed.
  double canary_difference = 0;
  std::int64_t unchanged_weights = 0;
  std::vector<ServerState> servers;  // empty where the engine generates itself
};

// Owns its thread; thread-safe.
class InferenceEngine {
 public:
  virtual ~InferenceEngine() = default;

  // One sample joins the running batch. kInvalidArgument for what can never run, kResourceExhausted
  // when the queue is full.
  virtual Status Submit(SampleRequest request) = 0;

  virtual void Cancel(SampleId id) = 0;

  // Waits up to `timeout` for results; empty if none came.
  virtual std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) = 0;

  // Taken between decode steps; all or nothing: on failure the old weights serve on. Blocks until
  // done. `manifest.folder` is local and verified.
  virtual Status UpdateWeights(const WeightManifest& manifest, InFlight in_flight) = 0;

  // Version that samples submitted now would start with.
  virtual PolicyVersion version() const = 0;

  virtual EngineStats stats() const = 0;
};

}  // namespace buttress
