// Continuous-batching generation over a Transformer: prefill, decode, sample, one step at a time.
// Knows tokens, not leases.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/policy/transformer.h"

namespace buttress {

struct GeneratorOptions {
  std::int64_t max_running = 256;         // sequences decoded together
  std::int64_t kv_cache_tokens = 262144;  // over all running sequences
  bool batch_invariant =
      false;  // same bits whatever the batch mates: rows are computed in fixed-shape tiles
};

struct GeneratedSequence {
  std::uint64_t key = 0;
  std::vector<std::int32_t> token_ids;  // the stop token included
  std::vector<float> logprobs;          // nats, under the distribution that was sampled from
  std::vector<std::int32_t>
      // index of the first token after each weight change in flight; the first is 0
      segment_starts;
  FinishReason finish_reason = FinishReason::kUnspecified;
};

// Not thread-safe. Throws what LibTorch throws.
class Generator {
 public:
  static std::unique_ptr<Generator> Make(Transformer& model, GeneratorOptions options);
  virtual ~Generator() = default;

  // Queues a sequence under the caller's `key`. Sequences with the same prompt that are queued
  // together share one prefill. kInvalidArgument: empty prompt, a token outside the vocabulary, or
  // more tokens than positions or cache can ever hold.
  virtual Status Add(std::uint64_t key, std::vector<std::int32_t> prompt,
                     SamplingParams sampling) = 0;

  // Drops a sequence; false if it is not here.
  virtual bool Remove(std::uint64_t key) = 0;

  // Admits what fits, runs one prefill or one decode step, returns what ended in it.
  virtual std::vector<GeneratedSequence> Step() = 0;

  virtual std::int64_t running() const = 0;
  virtual std::int64_t waiting() const = 0;

  // Weights have changed: cached keys and values of running sequences are recomputed under the new
  // ones before their next token.
  virtual void WeightsChanged() = 0;
};

}  // namespace buttress
