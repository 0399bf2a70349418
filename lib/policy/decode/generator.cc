#include "lib/policy/decode/generator.h"

#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/policy/cpu/for_rows.h"
#include "lib/tokenizer/stop_matcher.h"

namespace buttress {
namespace {

// The tokens of prompts and of preempted sequences that one step computes at most: fewer next to
// sequences that decode, so that a long prompt delays their next tokens little.
constexpr std::int64_t kPrefillRows = 4096;
constexpr std::int64_t kPrefillRowsNextToDecoding = 512;

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
  std::vector<std::int32_t> blocks;  // empty while no sequence runs
  std::int64_t computed = 0;         // positions whose keys and values the blocks have
  at::Tensor hidden_D;               // hidden state of the last token, before the last norm
  std::int32_t top_logprobs = -1;    // as SampleExtras::prompt_logprobs
  std::vector<PromptLogprob> logprobs;
  std::int64_t users = 0;    // sequences waiting or running
  std::int64_t running = 0;  // sequences running

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }

  std::int64_t shared_blocks() const { return size() / kCacheBlock; }

  bool ready() const { return computed == size(); }
};

struct Generator::Sequence {
  GeneratedSequence out;
  SamplingParams sampling;
  SampleExtras extras;
  StopMatcher first_stops;  // that has read no token
  StopMatcher stops;
  Prompt* prompt = nullptr;
  std::vector<std::int32_t> blocks;  // the shared blocks of the prompt, then its own
  std::int64_t computed = 0;         // positions as in Prompt; 0 until it has those of the prompt

  // Positions of the prompt and of the tokens.
  std::int64_t size() const {
    return prompt->size() + static_cast<std::int64_t>(out.token_ids.size());
  }

  // Whether only its last token is not computed, so that a row gives the next one.
  bool decodes() const { return computed > 0 && computed == size() - 1; }

  std::int32_t token(std::int64_t position) const {
    const auto at = static_cast<std::size_t>(position);
    const std::vector<std::int32_t>& before = prompt->tokens;
    return at < before.size() ? before[at] : out.token_ids[at - before.size()];
  }

  // The tokens that the next one cannot be: before min_tokens, those that would end the sequence.
  std::span<const std::int32_t> masked() const {
    const bool early = static_cast<std::int32_t>(out.token_ids.size()) < sampling.min_tokens;
    return early ? sampling.stop_token_ids : std::span<const std::int32_t>();
  }
};

// Rows of prompts that are computed together.
struct Generator::Pass {
  std::vector<CacheRow> rows;
  std::vector<std::int64_t> lengths;  // of whole prompts; empty for parts, which need the cache
  std::vector<std::pair<Prompt*, std::int64_t>> last_rows;  // the row of the last token of a prompt

  // Rows [row, row + count) are of tokens of a prompt from `first` on, and score those behind them.
  struct Scored {
    Prompt* prompt;
    std::int64_t row, first, count;
  };

  std::vector<Scored> scored;

  // Appends the next `count` tokens of the prompt.
  void Add(Prompt& prompt, std::int64_t count) {
    if (prompt.top_logprobs >= 0)
      scored.push_back({&prompt, std::ssize(rows), prompt.computed, count});
    for (const std::int64_t end = prompt.computed + count; prompt.computed < end;
         ++prompt.computed) {
      rows.push_back({prompt.tokens[static_cast<std::size_t>(prompt.computed)], prompt.computed,
                      prompt.blocks.data()});
    }
    if (prompt.ready()) last_rows.emplace_back(&prompt, std::ssize(rows) - 1);
  }
};

Generator::Generator(Transformer& model, GeneratorOptions options)
    : options_(options),
      model_(&model),
      own_decoder_(std::make_unique<CachedDecoder>(model)),
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
                      const Tokenizer* tokenizer, BegunSequence begun, SampleExtras extras) {
  BUTTRESS_RETURN_IF_ERROR(Check(prompt, sampling));
  BUTTRESS_RETURN_IF_ERROR(CheckBegun(std::ssize(prompt), sampling, begun));
  if (!sampling.stop.empty() && tokenizer == nullptr)
    return InvalidArgument("stop strings need a tokenizer; expected stop_token_ids alone");
  auto& shared = prompts_[{extras.prompt_logprobs, prompt}];
  if (shared == nullptr) {
    shared = std::make_unique<Prompt>();
    shared->tokens = std::move(prompt);
    shared->top_logprobs = extras.prompt_logprobs;
    if (extras.prompt_logprobs >= 0) shared->logprobs.resize(shared->tokens.size() - 1);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->out.key = key;
  if (!sampling.stop.empty())
    sequence->first_stops = StopMatcher(*tokenizer, sampling.stop, sampling.min_tokens);
  sequence->stops = sequence->first_stops;
  for (const std::int32_t token : begun.token_ids) sequence->stops.Completes(token);
  sequence->out.token_ids = std::move(begun.token_ids);
  sequence->out.logprobs = std::move(begun.logprobs);
  sequence->sampling = std::move(sampling);
  sequence->extras = extras;
  sequence->prompt = shared.get();
  sequence->sampling.max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(
      sequence->sampling.max_tokens, config_.max_positions - sequence->prompt->size()));
  ++sequence->prompt->users;
  waiting_.push_back(std::move(sequence));
  return OkStatus();
}

std::optional<std::int64_t> Generator::Remove(std::uint64_t key) {
  const auto has_key = [key](const std::unique_ptr<Sequence>& s) { return s->out.key == key; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_key);
      it != waiting_.end()) {
    const auto tokens = std::ssize((*it)->out.token_ids);
    ReleasePrompt((*it)->prompt);
    waiting_.erase(it);
    return tokens;
  }
  const auto it = std::find_if(running_.begin(), running_.end(), has_key);
  if (it == running_.end()) return std::nullopt;
  const auto tokens = std::ssize((*it)->out.token_ids);
  Release(**it);
  ReleasePrompt((*it)->prompt);
  running_.erase(it);
  return tokens;
}

std::int64_t Generator::Restart() {
  while (!running_.empty()) Preempt();
  std::int64_t lost = 0;
  for (const auto& sequence : waiting_) {
    GeneratedSequence& out = sequence->out;
    lost += std::ssize(out.token_ids);
    out.token_ids.clear();
    out.logprobs.clear();
    out.top_logprobs.clear();
    out.segment_starts.clear();
    sequence->stops = sequence->first_stops;
  }
  return lost;
}

std::vector<GeneratedSequence> Generator::Unfinished() const {
  std::vector<GeneratedSequence> unfinished;
  const auto add = [&](const Sequence& sequence) {
    if (!sequence.out.segment_starts.empty()) unfinished.push_back(sequence.out);
  };
  for (const auto& sequence : running_) add(*sequence);
  for (const auto& sequence : waiting_) add(*sequence);
  return unfinished;
}

std::vector<GeneratedSequence> Generator::Step() {
  const c10::InferenceMode inference;
  if (stale_) TakeWeights();
  const bool decodes =
      std::ranges::any_of(running_, [](const auto& sequence) { return sequence->decodes(); });
  const std::int64_t most = decodes ? kPrefillRowsNextToDecoding : kPrefillRows;
  std::int64_t left = most;
  Decode(left);
  Admit();
  Prefill(most, left);
  StartSequences();
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

Status Generator::CheckBegun(std::int64_t prompt_size, const SamplingParams& sampling,
                             const BegunSequence& begun) const {
  const std::int64_t tokens = std::ssize(begun.token_ids);
  const std::int64_t most =
      std::min<std::int64_t>(sampling.max_tokens, config_.max_positions - prompt_size);
  const bool known = std::ranges::all_of(begun.token_ids, [this](std::int32_t token) {
    return token >= 0 && token < config_.vocab_size;
  });
  if (known && tokens < most && begun.logprobs.size() == begun.token_ids.size()) return OkStatus();
  return InvalidArgument(c10::str("the completion begins with ", tokens, " tokens and ",
                                  begun.logprobs.size(),
                                  " log-probs; expected as many of both, fewer than ", most,
                                  ", and tokens of the vocabulary of ", config_.vocab_size));
}

// Ends the use of a prompt by one sequence.
void Generator::ReleasePrompt(Prompt* prompt) {
  if (--prompt->users > 0) return;
  cache_.Release(prompt->blocks);
  prompts_.erase(prompts_.find({prompt->top_logprobs, prompt->tokens}));
}

// Returns the blocks of a running sequence to the cache.
void Generator::Release(Sequence& sequence) {
  std::vector<std::int32_t> own(sequence.blocks.begin() + sequence.prompt->shared_blocks(),
                                sequence.blocks.end());
  cache_.Release(own);
  sequence.blocks.clear();
  sequence.computed = 0;
  --sequence.prompt->running;
}

// Releases the blocks of prompts that no running sequence uses. Admission prefills them again.
void Generator::ReleaseIdlePrompts(const Prompt* except) {
  for (auto& [tokens, prompt] : prompts_) {
    if (prompt->running > 0 || prompt.get() == except) continue;
    cache_.Release(prompt->blocks);
    prompt->computed = 0;
  }
}

// Moves the last sequence that was admitted back to the front of the queue. It keeps its tokens,
// whose keys and values are computed again once it is admitted.
void Generator::Preempt() {
  Release(*running_.back());
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
}

// Allocates the blocks of the first `positions` positions of a running sequence. While too few are
// free, preempts the sequence that was admitted last; returns false if that is this one.
bool Generator::Grow(Sequence& sequence, std::int64_t positions) {
  const std::int64_t missing = BlocksFor(positions) - std::ssize(sequence.blocks);
  while (missing > cache_.free_blocks()) {
    ReleaseIdlePrompts(nullptr);
    if (missing <= cache_.free_blocks()) break;
    const bool itself = running_.back().get() == &sequence;
    Preempt();
    if (itself) return false;
  }
  if (missing > 0) {
    const auto more = cache_.Allocate(missing);
    sequence.blocks.insert(sequence.blocks.end(), more.begin(), more.end());
  }
  return true;
}

// Moves the first waiting sequence into the batch, with the blocks of the tokens that it has.
// Leaves a block for each running sequence, so that none is preempted at once. Returns false if the
// cache lacks free blocks.
bool Generator::AdmitFront() {
  Sequence& sequence = *waiting_.front();
  Prompt& prompt = *sequence.prompt;
  const std::int64_t of_prompt = prompt.blocks.empty() ? BlocksFor(prompt.size()) : 0;
  const std::int64_t own = BlocksFor(sequence.size()) - prompt.shared_blocks();
  const std::int64_t needed = of_prompt + own + running();
  if (needed > cache_.free_blocks()) ReleaseIdlePrompts(&prompt);
  if (needed > cache_.free_blocks()) return false;
  if (of_prompt > 0) prompt.blocks = cache_.Allocate(of_prompt);
  sequence.blocks.assign(prompt.blocks.begin(), prompt.blocks.begin() + prompt.shared_blocks());
  const auto more = cache_.Allocate(own);
  sequence.blocks.insert(sequence.blocks.end(), more.begin(), more.end());
  ++prompt.running;
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

// Moves waiting sequences into the batch.
void Generator::Admit() {
  while (!waiting_.empty() && running() < options_.max_running && AdmitFront()) {
  }
}

// Computes the keys and values of prompts in the order of their sequences: `left` tokens at most. A
// prompt of more than `most` tokens is computed in parts, which attend to the cache.
void Generator::Prefill(std::int64_t most, std::int64_t left) {
  Pass whole;
  Pass part;
  for (const auto& sequence : running_) {
    Prompt& prompt = *sequence->prompt;
    if (prompt.ready()) continue;
    const std::int64_t count = std::min(prompt.size() - prompt.computed, most);
    if (count > left) break;
    left -= count;
    if (count == prompt.size()) {
      whole.lengths.push_back(count);
      whole.Add(prompt, count);
    } else {
      part.Add(prompt, count);
    }
  }
  Run(whole);
  Run(part);
}

void Generator::Run(const Pass& pass) {
  if (pass.rows.empty()) return;
  const at::Tensor hidden = decoder_.Run(pass.rows, pass.lengths, cache_);
  for (const auto& [prompt, row] : pass.last_rows) prompt->hidden_D = hidden.select(0, row).clone();
  for (const Pass::Scored& part : pass.scored)
    ScorePrompt(*part.prompt, part.first, hidden.narrow(0, part.row, part.count));
}

// Scores the tokens of a prompt behind those from `first` on, whose hidden states [R, D] are given.
void Generator::ScorePrompt(Prompt& prompt, std::int64_t first, const at::Tensor& hidden_RD) {
  const std::int64_t count = std::min(hidden_RD.size(0), prompt.size() - 1 - first);
  SamplingParams greedy;
  greedy.temperature = 0;
  ForLogits(hidden_RD.narrow(0, 0, count), [&](Sampler& sampler, std::int64_t r, const float* row) {
    const std::int32_t token = prompt.tokens[static_cast<std::size_t>(first + r + 1)];
    PromptLogprob& score = prompt.logprobs[static_cast<std::size_t>(first + r)];
    std::vector<float> weights;
    score.logprob = ScoreToken(row, config_.vocab_size, 1, token, weights).logprob;
    score.rank =
        1 + static_cast<std::int32_t>(std::count_if(
                row, row + config_.vocab_size, [&](float logit) { return logit > row[token]; }));
    score.top.clear();
    if (sampler.Sample(row, config_.vocab_size, greedy, 0).token >= 0)
      score.top = sampler.Top(prompt.top_logprobs);
  });
}

// Gives the sequences whose prompt is ready its keys and values, and samples the first token of
// those that have none.
void Generator::StartSequences() {
  std::vector<at::Tensor> hidden;
  std::vector<std::vector<Sequence*>> by_row;
  std::map<const Prompt*, std::size_t> row_of;
  for (const auto& sequence : running_) {
    const Prompt& prompt = *sequence->prompt;
    if (sequence->computed > 0 || !prompt.ready()) continue;
    sequence->computed = prompt.size();
    const auto shared = static_cast<std::size_t>(prompt.shared_blocks());
    if (prompt.blocks.size() > shared)
      cache_.CopyBlock(prompt.blocks[shared], sequence->blocks[shared]);
    if (!sequence->out.token_ids.empty()) continue;
    const auto [it, inserted] = row_of.emplace(&prompt, hidden.size());
    if (inserted) {
      hidden.push_back(prompt.hidden_D);
      by_row.emplace_back();
    }
    by_row[it->second].push_back(sequence.get());
  }
  if (!hidden.empty()) SampleRows(at::stack(hidden), by_row);
}

// Samples the next token of the sequences that decode. Of those that continue after a preemption or
// under new weights, computes `left` tokens at most, by which it lowers `left`, before they decode.
void Generator::Decode(std::int64_t& left) {
  std::vector<CacheRow> rows;
  std::vector<std::int64_t> sampled;  // rows
  std::vector<std::vector<Sequence*>> by_row;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.computed == 0) continue;
    const std::int64_t begin = sequence.computed;
    const std::int64_t end =
        sequence.decodes() ? begin + 1 : std::min(sequence.size(), begin + left);
    if (!Grow(sequence, end)) break;
    if (!sequence.decodes()) left -= end - begin;
    for (std::int64_t t = begin; t < end; ++t)
      rows.push_back({sequence.token(t), t, sequence.blocks.data()});
    sequence.computed = end;
    if (end < sequence.size()) continue;
    sampled.push_back(std::ssize(rows) - 1);
    by_row.push_back({&sequence});
  }
  if (rows.empty()) return;
  at::Tensor hidden_RD = decoder_.Run(rows, {}, cache_);
  if (by_row.empty()) return;
  if (by_row.size() < rows.size())
    hidden_RD =
        hidden_RD.index_select(0, at::tensor(at::IntArrayRef(sampled)).to(hidden_RD.device()));
  SampleRows(hidden_RD, by_row);
}

// Calls use(sampler, r, logits) for each row r of hidden states [R, D], in parallel. Handles some
// rows at a time, so that their logits stay in the cache of the processor.
template <class Use>
void Generator::ForLogits(const at::Tensor& hidden_RD, const Use& use) {
  const std::int64_t some =
      std::max<std::int64_t>(kMinLogitRows, kLogitValues / config_.vocab_size);
  for (std::int64_t first = 0; first < hidden_RD.size(0); first += some) {
    const std::int64_t count = std::min(some, hidden_RD.size(0) - first);
    const at::Tensor logits = decoder_.Logits(hidden_RD.narrow(0, first, count));
    const std::int64_t work = kSampleWork * config_.vocab_size;
    ForShares(count, work, [&](std::int64_t begin, std::int64_t rows) {
      Sampler sampler;
      for (std::int64_t r = begin; r < begin + rows; ++r)
        use(sampler, first + r, Rows<float>(logits, r));
    });
  }
}

// Samples a token from each row of hidden states [R, D], for every sequence of by_row[r].
void Generator::SampleRows(const at::Tensor& hidden_RD,
                           const std::vector<std::vector<Sequence*>>& by_row) {
  ForLogits(hidden_RD, [&](Sampler& sampler, std::int64_t r, const float* logits) {
    for (Sequence* sequence : by_row[static_cast<std::size_t>(r)])
      SampleToken(sampler, logits, *sequence);
  });
}

void Generator::SampleToken(Sampler& sampler, const float* logits, Sequence& sequence) const {
  const double uniform = UniformAt({sequence.sampling.seed, 0}, sequence.out.token_ids.size());
  const SampleExtras& extras = sequence.extras;
  std::vector<float> penalized;
  if (extras.penalties != Penalties()) {
    penalized.assign(logits, logits + config_.vocab_size);
    Penalize(extras.penalties, sequence.prompt->tokens, sequence.out.token_ids, penalized);
    logits = penalized.data();
  }
  const SampledToken sampled =
      sampler.Sample(logits, config_.vocab_size, sequence.sampling, uniform, sequence.masked());
  Append(sequence, sampled);
  if (extras.top_logprobs > 0 && sampled.token >= 0)
    sequence.out.top_logprobs.push_back(sampler.Top(extras.top_logprobs));
}

void Generator::Append(Sequence& sequence, SampledToken sampled) const {
  GeneratedSequence& out = sequence.out;
  if (sampled.token < 0) {
    out.finish_reason = FinishReason::kError;
    return;
  }
  if (out.segment_starts.empty())
    out.segment_starts.push_back(static_cast<std::int32_t>(out.token_ids.size()));
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
    sequence->out.prompt_logprobs = sequence->prompt->logprobs;
    Release(*sequence);
    ReleasePrompt(sequence->prompt);
    finished.push_back(std::move(sequence->out));
    sequence.reset();
  }
  running_.erase(std::remove(running_.begin(), running_.end(), nullptr), running_.end());
  return finished;
}

// Takes the new weights of the model. What the old ones computed is computed again before a token
// is sampled, unless it is kept.
void Generator::TakeWeights() {
  stale_ = false;
  if (model_ != nullptr) decoder_.SetWeights(*model_);
  ReleaseIdlePrompts(nullptr);
  for (auto& [tokens, prompt] : prompts_) {
    if (!keep_cache_ || !prompt->ready()) prompt->computed = 0;
  }
  const auto begin_segment = [this](Sequence& sequence) {
    if (!keep_cache_) sequence.computed = 0;
    GeneratedSequence& out = sequence.out;
    if (!out.segment_starts.empty())
      out.segment_starts.push_back(static_cast<std::int32_t>(out.token_ids.size()));
  };
  for (const auto& sequence : running_) begin_segment(*sequence);
  for (const auto& sequence : waiting_) begin_segment(*sequence);
}

}  // namespace buttress
