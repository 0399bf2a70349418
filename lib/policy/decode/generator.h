// Generates completions with continuous batching: sequences join and leave the running batch at
// every step. Their cache grows with them; when it is full, the sequence that was admitted last
// waits, and is recomputed later (Kwon et al., "Efficient Memory Management for Large Language
// Model Serving with PagedAttention", arXiv 2309.06180, section 4.5). Long prompts are computed in
// parts between decode steps (Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference
// with Sarathi-Serve", arXiv 2403.02310).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/policy/decode/cached_decoder.h"
#include "lib/policy/decode/kv_cache.h"
#include "lib/policy/decode/sampler.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

struct GeneratorOptions {
  std::int64_t max_running = 256;         // sequences decoded together
  std::int64_t kv_cache_tokens = 262144;  // capacity of the cache, over all running sequences
};

struct GeneratedSequence {
  std::uint64_t key = 0;
  std::vector<std::int32_t> token_ids;  // with the stop token or the tokens of the stop string
  std::vector<float> logprobs;          // of token_ids under the distribution sampled from, in nats
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // of each, where SampleExtras asks for them
  std::vector<PromptLogprob> prompt_logprobs;           // the same; from the second token on
  // Indices of the first tokens sampled here from the first weights and after each change of them,
  // one for each change: equal ones if no token was sampled between two changes. The first index is
  // 0, or the number of tokens that the sequence was added with.
  std::vector<std::int32_t> segment_starts;
  FinishReason finish_reason = FinishReason::kUnspecified;
};

// Tokens that a sequence begins with.
struct BegunSequence {
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;
};

// Not thread-safe. LibTorch's exceptions (c10::Error) pass through.
class Generator {
 public:
  // With a decoder of its own for `model`, which must outlive the generator.
  Generator(Transformer& model, GeneratorOptions options);

  // With `decoder`, which must outlive the generator.
  Generator(CachedDecoder& decoder, GeneratorOptions options);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Queues a sequence under the key of the caller. Queued sequences with the same prompt share one
  // prefill. `tokenizer` finds stop strings and must outlive the sequence; it may be null if there
  // are none. As in vLLM, a completion is cut at the last position of the model. kOutOfRange for a
  // prompt that leaves no position for a completion; kInvalidArgument for an empty prompt, a token
  // outside the vocabulary, sampling parameters out of range, or more tokens than the cache can
  // hold.
  //
  // The sequence continues behind the tokens of `begun`, which others have sampled and which did
  // not end it; kInvalidArgument if they leave no token to sample. `extras.top_logprobs` are not
  // known of those tokens.
  Status Add(std::uint64_t key, std::vector<std::int32_t> prompt, SamplingParams sampling,
             const Tokenizer* tokenizer = nullptr, BegunSequence begun = {},
             SampleExtras extras = {});

  // Removes a sequence. Returns the number of its tokens, nullopt if there is none with this key.
  std::optional<std::int64_t> Remove(std::uint64_t key);

  // Lets every sequence start again from its prompt. Returns the number of tokens that they lose.
  std::int64_t Restart();

  // Returns copies of the sequences that have sampled tokens here and are not finished.
  std::vector<GeneratedSequence> Unfinished() const;

  // Samples one token of each sequence that decodes, admits the queued sequences that fit, and
  // computes a bounded number of tokens of prompts. Returns the sequences that finished in it.
  std::vector<GeneratedSequence> Step();

  // The number of sequences in the batch, and in the queue.
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }

  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }

  // Tells the generator that the weights of the model or of the decoder changed. The next steps
  // recompute the cached keys and values of each sequence under the new weights before they sample
  // from it. With `keep_cache` sequences of the batch continue behind the keys and values of the
  // old weights, as do others that join them with the same prompt.
  void WeightsChanged(bool keep_cache = false) {
    stale_ = true;
    keep_cache_ = keep_cache;
  }

 private:
  struct Prompt;
  struct Sequence;
  struct Pass;

  Status Check(const std::vector<std::int32_t>& prompt, const SamplingParams& sampling) const;
  Status CheckBegun(std::int64_t prompt_size, const SamplingParams& sampling,
                    const BegunSequence& begun) const;
  void TakeWeights();
  void Decode(std::int64_t& left);
  void Admit();
  bool AdmitFront();
  void Prefill(std::int64_t most, std::int64_t left);
  void Run(const Pass& pass);
  void StartSequences();
  template <class Use>
  void ForLogits(const at::Tensor& hidden_RD, const Use& use);
  void ScorePrompt(Prompt& prompt, std::int64_t first, const at::Tensor& hidden_RD);
  void SampleRows(const at::Tensor& hidden_RD, const std::vector<std::vector<Sequence*>>& by_row);
  void SampleToken(Sampler& sampler, const float* logits, Sequence& sequence) const;
  void Append(Sequence& sequence, SampledToken sampled) const;
  std::vector<GeneratedSequence> RemoveFinished();
  bool Grow(Sequence& sequence, std::int64_t positions);
  void Preempt();
  void Release(Sequence& sequence);
  void ReleasePrompt(Prompt* prompt);
  void ReleaseIdlePrompts(const Prompt* except);

  const GeneratorOptions options_;
  Transformer* const model_;  // null if the decoder is the caller's
  const std::unique_ptr<CachedDecoder> own_decoder_;
  CachedDecoder& decoder_;
  const ModelConfig& config_;
  KvCache cache_;
  // By the number of prompt_logprobs and the tokens.
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::unique_ptr<Prompt>> prompts_;
  // In the order of Add: all running sequences came before all waiting ones.
  std::vector<std::unique_ptr<Sequence>> running_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  bool stale_ = false;       // the weights changed since the last step
  bool keep_cache_ = false;  // then
};

}  // namespace buttress
