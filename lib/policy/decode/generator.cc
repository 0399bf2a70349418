#include "lib/policy/decode/generator.h"

#include <torch/types.h>

#include <algorithm>
#include <span>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/tokenizer/stop_matcher.h"

namespace buttress {
namespace {

// The largest number of rows of one pass, unless a single sequence is longer, and of the positions
// that its sequences attend to: those of a shared prompt count for each of them, because attention
// may copy them.
constexpr std::int64_t kPassRows = 4096;
constexpr std::int64_t kPassKeys = 8 * kPassRows;

// The logits that exist at the same time: about kLogitValues, but at least kMinLogitRows rows.
constexpr std::int64_t kLogitValues = std::int64_t{1} << 22;
constexpr std::int64_t kMinLogitRows = 32;

// Operations for one logit in sampling.
constexpr std::int64_t kSampleWork = 4;

}  // namespace

// A prompt of waiting or running sequences. Its blocks hold all of its positions. Sequences share
// the full blocks, and copy the last one if the prompt ends inside it.
struct Generator::Prompt {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> blocks;  // empty before the prefill
  at::Tensor hidden_D;               // hidden state of the last token, before the last norm
  std::int64_t users = 0;            // sequences waiting or running
  std::int64_t running = 0;          // sequences running

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }

  std::int64_t shared_blocks() const { return size() / kCacheBlock; }
};

struct Generator::Sequence {
  GeneratedSequence out;
  SamplingParams sampling;
  StopMatcher stops;
  Prompt* prompt = nullptr;
  std::vector<std::int32_t> blocks;  // the shared blocks of the prompt, then its own

  // The tokens that the next one cannot be: before min_tokens, those that would end the sequence.
  std::span<const std::int32_t> masked() const {
    const bool early = static_cast<std::int32_t>(out.token_ids.size()) < sampling.min_tokens;
    return early ? sampling.stop_token_ids : std::span<const std::int32_t>();
  }

  // The number of blocks besides the shared ones. The keys and values of the last token are never
  // needed.
  std::int64_t own_blocks() const {
    return BlocksFor(prompt->size() + sampling.max_tokens - 1) - prompt->shared_blocks();
  }
};

// The rows of sequences that are computed together.
struct Generator::Pass {
  std::vector<CacheRow> rows;
  RowSequences sequences;
  std::int64_t keys = 0;                                    // the positions that they attend to
  std::vector<std::pair<Prompt*, std::int64_t>> last_rows;  // the row of the last token of a prompt

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }

  bool Fits(std::int64_t more_rows, std::int64_t more_keys) const {
    return rows.empty() || (size() + more_rows <= kPassRows && keys + more_keys <= kPassKeys);
  }

  // Appends the tokens from position `begin` on, behind sequence `prefix`, or -1. Returns the index
  // of the new sequence.
  std::int64_t Add(std::span<const std::int32_t> tokens, std::int64_t begin,
                   const std::vector<std::int32_t>& blocks, std::int64_t prefix) {
    const auto end = static_cast<std::int64_t>(tokens.size());
    for (std::int64_t t = begin; t < end; ++t)
      rows.push_back({tokens[static_cast<std::size_t>(t)], t, blocks.data()});
    if (end > begin) {
      sequences.lengths.push_back(end - begin);
      sequences.prefixes.push_back(prefix);
      keys += end;
    }
    return static_cast<std::int64_t>(sequences.lengths.size()) - 1;
  }
};

Generator::Generator(Transformer& model, GeneratorOptions options)
    : options_(options),
      model_(&model),
      own_decoder_(std::make_unique<CachedDecoder>(model, options.batch_invariant)),
      decoder_(*own_decoder_),
      config_(decoder_.config()),
      cache_(config_, decoder_.dtype(), decoder_.device(), BlocksFor(options.kv_cache_tokens)) {}

Generator::Generator(CachedDecoder& decoder, GeneratorOptions options)
    : options_(options),
      model_(nullptr),
      decoder_(decoder),
      config_(decoder_.config()),
      cache_(config_, decoder_.dtype(), decoder_.device(), BlocksFor(options.kv_cache_tokens)) {}

Generator::~Generator() = default;

Status Generator::Add(std::uint64_t key, std::vector<std::int32_t> prompt, SamplingParams sampling,
                      const Tokenizer* tokenizer) {
  BUTTRESS_RETURN_IF_ERROR(Check(prompt, sampling));
  if (!sampling.stop.empty() && tokenizer == nullptr)
    return InvalidArgument("stop strings need a tokenizer; expected stop_token_ids alone");
  auto found = prompts_.find(prompt);
  if (found == prompts_.end()) {
    found = prompts_.emplace(prompt, std::make_unique<Prompt>()).first;
    found->second->tokens = std::move(prompt);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->out.key = key;
  if (!sampling.stop.empty())
    sequence->stops = StopMatcher(*tokenizer, sampling.stop, sampling.min_tokens);
  sequence->sampling = std::move(sampling);
  sequence->prompt = found->second.get();
  sequence->sampling.max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(
      sequence->sampling.max_tokens, config_.max_positions - sequence->prompt->size()));
  ++sequence->prompt->users;
  waiting_.push_back(std::move(sequence));
  return OkStatus();
}

bool Generator::Remove(std::uint64_t key) {
  const auto has_key = [key](const std::unique_ptr<Sequence>& s) { return s->out.key == key; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_key);
      it != waiting_.end()) {
    ReleasePrompt((*it)->prompt);
    waiting_.erase(it);
    return true;
  }
  const auto it = std::find_if(running_.begin(), running_.end(), has_key);
  if (it == running_.end()) return false;
  Release(**it);
  running_.erase(it);
  return true;
}

std::vector<GeneratedSequence> Generator::Step() {
  const c10::InferenceMode inference;
  if (stale_) Rebuild();
  const std::size_t first_new = running_.size();
  if (Admit()) {
    SampleFirst(first_new);
  } else if (!running_.empty()) {
    Decode();
  }
  return RemoveFinished();
}

Status Generator::Check(const std::vector<std::int32_t>& prompt,
                        const SamplingParams& sampling) const {
  if (prompt.empty()) return InvalidArgument("the prompt has no tokens");
  const std::int64_t size = static_cast<std::int64_t>(prompt.size());
  if (size >= config_.max_positions) {
    return OutOfRange(c10::str("the prompt has ", size, " tokens; expected fewer than the ",
                               config_.max_positions, " positions of the model"));
  }
  for (const std::int32_t token : prompt) {
    if (token < 0 || token >= config_.vocab_size) {
      return InvalidArgument(
          c10::str("prompt token ", token, " is outside the vocabulary of ", config_.vocab_size));
    }
  }
  if (sampling.max_tokens < 1) {
    return InvalidArgument(c10::str("max_tokens = ", sampling.max_tokens, "; expected at least 1"));
  }
  for (const std::int32_t id : sampling.stop_token_ids) {
    if (id >= 0 && id < config_.vocab_size) continue;
    return InvalidArgument(
        c10::str("stop token ", id, " is outside the vocabulary of ", config_.vocab_size));
  }
  if (!(sampling.temperature >= 0) || !(sampling.top_p > 0 && sampling.top_p <= 1) ||
      sampling.top_k < 0) {
    return InvalidArgument(c10::str("temperature = ", sampling.temperature,
                                    ", top_p = ", sampling.top_p, ", top_k = ", sampling.top_k,
                                    "; expected temperature >= 0, top_p in (0, 1] and top_k >= 0"));
  }
  const std::int64_t total = std::min(size + sampling.max_tokens, config_.max_positions);
  if (BlocksFor(size) + BlocksFor(total - 1) - size / kCacheBlock > cache_.total_blocks()) {
    return InvalidArgument(
        c10::str("prompt and max_tokens are ", total,
                 " tokens, more than kv_cache_tokens = ", options_.kv_cache_tokens, " can hold"));
  }
  return OkStatus();
}

// Ends the use of a prompt by one sequence.
void Generator::ReleasePrompt(Prompt* prompt) {
  if (--prompt->users > 0) return;
  cache_.Release(prompt->blocks);
  prompts_.erase(prompts_.find(prompt->tokens));
}

// Returns the blocks of a running sequence to the cache.
void Generator::Release(Sequence& sequence) {
  std::vector<std::int32_t> own(sequence.blocks.begin() + sequence.prompt->shared_blocks(),
                                sequence.blocks.end());
  cache_.Release(own);
  --sequence.prompt->running;
  ReleasePrompt(sequence.prompt);
}

// Releases the blocks of prompts that no running sequence uses. Admission prefills them again.
void Generator::ReleaseIdlePrompts(const Prompt* except) {
  for (auto& [tokens, prompt] : prompts_) {
    if (prompt->running == 0 && prompt.get() != except) cache_.Release(prompt->blocks);
  }
}

// Moves the first waiting sequence into the batch. Returns false if the cache lacks free blocks.
bool Generator::AdmitFront() {
  Sequence& sequence = *waiting_.front();
  Prompt& prompt = *sequence.prompt;
  const bool prefill = prompt.blocks.empty();
  const std::int64_t needed = sequence.own_blocks() + (prefill ? BlocksFor(prompt.size()) : 0);
  if (needed > cache_.free_blocks()) ReleaseIdlePrompts(&prompt);
  if (needed > cache_.free_blocks()) return false;
  if (prefill) {
    prompt.blocks = cache_.Allocate(BlocksFor(prompt.size()));
    prompt.hidden_D.reset();
  }
  sequence.blocks.assign(prompt.blocks.begin(), prompt.blocks.begin() + prompt.shared_blocks());
  const auto own = cache_.Allocate(sequence.own_blocks());
  sequence.blocks.insert(sequence.blocks.end(), own.begin(), own.end());
  ++prompt.running;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

// Moves waiting sequences into the batch and prefills their prompts. Returns false if none fits.
bool Generator::Admit() {
  const std::size_t first_new = running_.size();
  std::vector<Prompt*> fresh;
  std::int64_t rows = 0;
  while (!waiting_.empty() && running() < options_.max_running) {
    Prompt* prompt = waiting_.front()->prompt;
    const bool prefill = prompt->blocks.empty();
    if (prefill && rows > 0 && rows + prompt->size() > kPassRows) break;
    if (!AdmitFront()) break;
    if (prefill) {
      fresh.push_back(prompt);
      rows += prompt->size();
    }
  }
  Prefill(fresh);
  for (std::size_t i = first_new; i < running_.size(); ++i) {
    const Prompt& prompt = *running_[i]->prompt;
    const auto shared = static_cast<std::size_t>(prompt.shared_blocks());
    if (prompt.blocks.size() > shared && running_[i]->blocks.size() > shared) {
      cache_.CopyBlock(prompt.blocks[shared], running_[i]->blocks[shared]);
    }
  }
  return running_.size() > first_new;
}

void Generator::Prefill(const std::vector<Prompt*>& prompts) {
  Pass pass;
  for (Prompt* prompt : prompts) {
    pass.Add(prompt->tokens, 0, prompt->blocks, -1);
    pass.last_rows.emplace_back(prompt, pass.size() - 1);
  }
  Run(pass);
}

// Runs the rows of the pass and empties it.
void Generator::Run(Pass& pass) {
  if (pass.rows.empty()) return;
  const at::Tensor hidden = decoder_.Run(pass.rows, pass.sequences, cache_);
  for (const auto& [prompt, row] : pass.last_rows) prompt->hidden_D = hidden.select(0, row).clone();
  pass = {};
}

// Samples the first token of each sequence from index `first_new` on.
void Generator::SampleFirst(std::size_t first_new) {
  std::vector<at::Tensor> hidden;
  std::vector<std::vector<Sequence*>> by_row;
  std::map<const Prompt*, std::size_t> row_of;
  for (std::size_t i = first_new; i < running_.size(); ++i) {
    const Prompt* prompt = running_[i]->prompt;
    const auto [it, inserted] = row_of.emplace(prompt, hidden.size());
    if (inserted) {
      hidden.push_back(prompt->hidden_D);
      by_row.emplace_back();
    }
    by_row[it->second].push_back(running_[i].get());
  }
  SampleRows(at::stack(hidden), by_row);
}

void Generator::Decode() {
  std::vector<CacheRow> rows;
  std::vector<std::vector<Sequence*>> by_row;
  for (const auto& sequence : running_) {
    const auto& tokens = sequence->out.token_ids;
    const std::int64_t position =
        sequence->prompt->size() + static_cast<std::int64_t>(tokens.size()) - 1;
    rows.push_back({tokens.back(), position, sequence->blocks.data()});
    by_row.push_back({sequence.get()});
  }
  SampleRows(decoder_.Run(rows, {}, cache_), by_row);
}

// Samples a token from each row of hidden states [R, D], for every sequence of by_row[r]. Handles
// some rows at a time, so that their logits stay in the cache of the processor.
void Generator::SampleRows(const at::Tensor& hidden_RD,
                           const std::vector<std::vector<Sequence*>>& by_row) {
  const std::int64_t some =
      std::max<std::int64_t>(kMinLogitRows, kLogitValues / config_.vocab_size);
  for (std::int64_t first = 0; first < hidden_RD.size(0); first += some) {
    const std::int64_t count = std::min(some, hidden_RD.size(0) - first);
    const at::Tensor logits = decoder_.Logits(hidden_RD.narrow(0, first, count));
    const std::int64_t work = kSampleWork * config_.vocab_size;
    ForShares(count, work, [&](std::int64_t begin, std::int64_t rows) {
      Sampler sampler;
      for (std::int64_t r = begin; r < begin + rows; ++r) {
        for (Sequence* sequence : by_row[static_cast<std::size_t>(first + r)]) {
          const double uniform =
              UniformAt({sequence->sampling.seed, 0}, sequence->out.token_ids.size());
          Append(*sequence, sampler.Sample(Rows<float>(logits, r), config_.vocab_size,
                                           sequence->sampling, uniform, sequence->masked()));
        }
      }
    });
  }
}

void Generator::Append(Sequence& sequence, SampledToken sampled) const {
  GeneratedSequence& out = sequence.out;
  if (sampled.token < 0) {
    out.finish_reason = FinishReason::kError;
    return;
  }
  if (out.segment_starts.empty()) out.segment_starts.push_back(0);
  out.token_ids.push_back(sampled.token);
  out.logprobs.push_back(sampled.logprob);
  const std::vector<std::int32_t>& stops = sequence.sampling.stop_token_ids;
  const bool stop_string = sequence.stops.Completes(sampled.token);
  if (stop_string || std::find(stops.begin(), stops.end(), sampled.token) != stops.end()) {
    out.finish_reason = FinishReason::kStop;
  } else if (static_cast<std::int32_t>(out.token_ids.size()) == sequence.sampling.max_tokens) {
    out.finish_reason = FinishReason::kLength;
  }
}

std::vector<GeneratedSequence> Generator::RemoveFinished() {
  std::vector<GeneratedSequence> finished;
  for (auto& sequence : running_) {
    if (sequence->out.finish_reason == FinishReason::kUnspecified) continue;
    Release(*sequence);
    finished.push_back(std::move(sequence->out));
    sequence.reset();
  }
  running_.erase(std::remove(running_.begin(), running_.end(), nullptr), running_.end());
  return finished;
}

// Takes the new weights of the model and recomputes every cached key and value in place.
void Generator::Rebuild() {
  stale_ = false;
  if (model_ != nullptr) decoder_.SetWeights(*model_);
  ReleaseIdlePrompts(nullptr);
  Pass pass;
  for (auto& [tokens, prompt] : prompts_) {
    if (!prompt->blocks.empty()) AddRunning(*prompt, pass);
  }
  Run(pass);
  for (const auto& sequence : running_) {
    sequence->out.segment_starts.push_back(
        static_cast<std::int32_t>(sequence->out.token_ids.size()));
  }
}

// Appends a prompt and its running sequences: the blocks that they share, and behind them the rest
// of each, without the last token of a sequence, which the next decode step computes. Runs the pass
// whenever the next sequence does not fit.
void Generator::AddRunning(Prompt& prompt, Pass& pass) {
  const std::int64_t shared = prompt.shared_blocks() * kCacheBlock;
  std::int64_t prefix = -1;
  const auto add = [&](std::span<const std::int32_t> tokens,
                       const std::vector<std::int32_t>& blocks) {
    const auto size = static_cast<std::int64_t>(tokens.size());
    if (!pass.Fits(prefix < 0 ? size : size - shared, size)) {
      Run(pass);
      prefix = -1;
    }
    if (prefix < 0 && shared > 0) {
      prefix = pass.Add(std::span(prompt.tokens).first(static_cast<std::size_t>(shared)), 0,
                        prompt.blocks, -1);
    }
    pass.Add(tokens, shared, blocks, prefix);
  };
  add(prompt.tokens, prompt.blocks);
  pass.last_rows.emplace_back(&prompt, pass.size() - 1);
  for (const auto& sequence : running_) {
    if (sequence->prompt != &prompt) continue;
    std::vector<std::int32_t> tokens = prompt.tokens;
    const auto& sampled = sequence->out.token_ids;
    tokens.insert(tokens.end(), sampled.begin(), sampled.end() - 1);
    add(tokens, sequence->blocks);
  }
}

}  // namespace buttress
