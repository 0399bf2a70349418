// What samples the completions of an evaluation: the model in this process, or a server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/data/prompt_file.h"
#include "lib/experience/types.h"
#include "rollout_worker/episodes/episode.h"

namespace buttress {

struct SampledCompletion {
  std::uint64_t key = 0;
  FinishReason finish_reason = FinishReason::kUnspecified;  // kStop, kLength; else unscorable
  std::vector<std::int32_t> token_ids;                      // empty if only the text is known
  std::string text;                                         // if the tokens are not known
  std::int64_t tokens = 0;
  std::optional<double> logprob;  // sum over the tokens, under the distribution sampled from
  // What was sampled in place of a completion; null for a completion.
  std::shared_ptr<const Episode> episode = nullptr;
};

// Not thread-safe.
class EvalSampler {
 public:
  virtual ~EvalSampler() = default;

  // Queues a completion under the caller's key. kInvalidArgument for one that cannot be sampled.
  virtual Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) = 0;

  // Works for a moment, and returns the completions that ended in it.
  virtual Result<std::vector<SampledCompletion>> Step() = 0;

  // Completions that were added and not yet returned.
  virtual std::int64_t open() const = 0;

  // Whether completions have texts and no tokens.
  virtual bool only_texts() const = 0;
};

}  // namespace buttress
