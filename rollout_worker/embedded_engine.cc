#include "rollout_worker/embedded_engine.h"

#include <torch/types.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/os/memory.h"
#include "lib/base/report/log.h"
#include "lib/base/thread/sync.h"
#include "lib/collectives/cuda_library.h"
#include "lib/policy/adapters/peft_folder.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/parameters.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kWaitSlice(200);
// The longest wait for a step to end.
constexpr std::chrono::milliseconds kUnfinishedWait(2000);
constexpr std::size_t kQueuedPerRunning = 4;

// The policy versions that the generator used, in order. A sequence that finishes now with n
// segments ran under the last n of them.
class VersionHistory {
 public:
  explicit VersionHistory(PolicyVersion first) : versions_({std::move(first)}) {}

  void Add(PolicyVersion version) {
    if (!stepped_) versions_.pop_back();  // no token was sampled from it
    versions_.push_back(std::move(version));
    stepped_ = false;
  }

  // Records that the generator ran a step under the current version.
  void RecordStep() { stepped_ = true; }

  // Drops all versions but the current one, which suffices when no sequence is in flight.
  void Trim() { versions_.erase(versions_.begin(), versions_.end() - 1); }

  // `begun` are the segments of the tokens that the sequence was added with.
  std::vector<Segment> SegmentsOf(const GeneratedSequence& sequence,
                                  const std::vector<Segment>& begun) const {
    const std::vector<std::int32_t>& starts = sequence.segment_starts;
    BUTTRESS_CHECK(starts.size() <= versions_.size(),
                   "a sequence has more segments than versions were recorded");
    std::vector<Segment> segments;
    if (!starts.empty() && starts.front() > 0) segments = begun;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const auto tokens = static_cast<std::int32_t>(sequence.token_ids.size());
      const std::int32_t end = i + 1 < starts.size() ? starts[i + 1] : tokens;
      if (starts[i] >= end) continue;  // no token was sampled from this version
      const PolicyVersion& version = versions_[versions_.size() - starts.size() + i];
      if (segments.empty() || !(segments.back().version == version))
        segments.push_back({starts[i], version});
    }
    return segments;
  }

 private:
  std::vector<PolicyVersion> versions_;
  bool stepped_ = false;
};

// What an engine that ran out of memory may lower, for the error.
std::string SizesToLower(const GeneratorOptions& options) {
  return c10::str("lower local.worker.kv_cache_tokens (", options.kv_cache_tokens,
                  ") or local.worker.max_running (", options.max_running, ")");
}

using ApplyVersion = std::function<void(CachedDecoder&)>;

struct WeightUpdate {
  ApplyVersion apply;
  PolicyVersion version;
};

// Reads a version: adapters of the start model, which the decoder holds, or the weights of a whole
// model, in the layout of the decoder. The decoder may run at the same time.
Result<ApplyVersion> ReadVersion(const std::string& folder, const CachedDecoder& decoder) {
  if (HasAdapters(folder)) {
    BUTTRESS_ASSIGN_OR_RETURN(Adapters adapters, LoadAdapters(folder, decoder.config()));
    return ApplyVersion(
        [adapters = std::move(adapters)](CachedDecoder& to) { to.SetAdapters(adapters); });
  }
  BUTTRESS_ASSIGN_OR_RETURN(
      StoredWeights values,
      StoredWeights::Open(folder, decoder.config(), decoder.dtype(), decoder.device()));
  return ApplyVersion(
      [packed = decoder.Pack(values)](CachedDecoder& to) { to.SetWeights(packed); });
}

// Thread-safe. The thread of the engine alone uses the decoder (but for its constant properties and
// Pack), the generator, samples_ and history_; everything that callers share with it is guarded by
// mutex_.
class EmbeddedEngine final : public InferenceEngine {
 public:
  EmbeddedEngine(std::unique_ptr<CachedDecoder> decoder, GeneratorOptions options, int threads,
                 PolicyVersion initial, const Tokenizer* tokenizer, InFlight in_flight)
      : decoder_(std::move(decoder)),
        options_(options),
        threads_(threads),
        tokenizer_(tokenizer),
        in_flight_(in_flight),
        queue_limit_(kQueuedPerRunning * static_cast<std::size_t>(options.max_running)),
        generator_(std::make_unique<Generator>(*decoder_, options_)),
        history_(initial),
        version_(std::move(initial)) {
    thread_ = std::thread([this] { Run(); });
  }

  ~EmbeddedEngine() override {
    {
      MutexLock lock(mutex_);
      stop_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  Status Submit(SampleRequest request) override {
    MutexLock lock(mutex_);
    if (inside_ >= queue_limit_) {
      return ResourceExhausted(
          c10::str("the engine has ", inside_, " samples; submit again after some have ended"));
    }
    ++inside_;
    submitted_.push_back(std::move(request));
    changed_.NotifyAll();
    return OkStatus();
  }

  void Cancel(SampleId id) override {
    MutexLock lock(mutex_);
    cancelled_.push_back(id);
    changed_.NotifyAll();
  }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
    inside_ -= results_.size();
    return std::exchange(results_, {});
  }

  std::vector<EngineResult> Unfinished() override {
    MutexLock lock(mutex_);
    if (inside_ == 0) return {};
    unfinished_.reset();
    unfinished_wanted_ = true;
    changed_.NotifyAll();
    changed_.WaitFor(mutex_, kUnfinishedWait,
                     [this]() REQUIRES(mutex_) { return unfinished_.has_value(); });
    unfinished_wanted_ = false;
    return std::exchange(unfinished_, std::nullopt).value_or(std::vector<EngineResult>());
  }

  Status UpdateWeights(const WeightManifest& manifest) override {
    MutexLock one_at_a_time(update_mutex_);
    // Reads on this thread, while the engine continues to generate with the old weights.
    BUTTRESS_ASSIGN_OR_RETURN(ApplyVersion apply,
                              Guarded([&] { return ReadVersion(manifest.folder, *decoder_); }));
    const Status applied = Apply({std::move(apply), manifest.version});
    ReturnFreedMemory();
    return applied;
  }

  PolicyVersion version() const override {
    MutexLock lock(mutex_);
    return version_;
  }

  EngineStats stats() const override {
    MutexLock lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting = static_cast<std::int64_t>(inside_ - results_.size()) - stats.running;
    return stats;
  }

 private:
  // Lets the thread of the engine apply the update between two steps, and waits until it has.
  Status Apply(WeightUpdate update) {
    MutexLock lock(mutex_);
    update_ = std::move(update);
    update_status_.reset();
    changed_.NotifyAll();
    const auto done = [this]() REQUIRES(mutex_) { return update_status_.has_value(); };
    while (!changed_.WaitFor(mutex_, kWaitSlice, done)) {
    }
    return *update_status_;
  }

  void Run() {
    at::set_num_threads(threads_);
    while (WaitForWork()) {
      CancelSamples();
      ApplyUpdate();
      AddSubmitted();
      Step();
      ReportUnfinished();
    }
  }

  void ReportUnfinished() {
    {
      MutexLock lock(mutex_);
      if (!unfinished_wanted_ || unfinished_) return;
    }
    std::vector<EngineResult> results;
    if (generator_) {
      for (GeneratedSequence& sequence : generator_->Unfinished())
        results.push_back(ResultOf(samples_.at(sequence.key), std::move(sequence), OkStatus()));
    }
    MutexLock lock(mutex_);
    unfinished_ = std::move(results);
    changed_.NotifyAll();
  }

  // Waits for something to do. Returns false when the engine stops.
  bool WaitForWork() {
    MutexLock lock(mutex_);
    const auto ready = [this]() REQUIRES(mutex_) {
      return stop_ || update_.has_value() || !submitted_.empty() || !cancelled_.empty() ||
             unfinished_wanted_;
    };
    while (samples_.empty() && !changed_.WaitFor(mutex_, kWaitSlice, ready)) {
    }
    return !stop_;
  }

  void CancelSamples() {
    std::vector<EngineResult> results;
    MutexLock lock(mutex_);
    for (const SampleId& id : std::exchange(cancelled_, {})) {
      const auto queued = std::find_if(submitted_.begin(), submitted_.end(),
                                       [&](const SampleRequest& s) { return s.id == id; });
      const auto running = std::find_if(samples_.begin(), samples_.end(),
                                        [&](const auto& entry) { return entry.second.id == id; });
      if (queued != submitted_.end()) {
        results.push_back(Ended(*queued, FinishReason::kAbort, Cancelled("cancelled")));
        submitted_.erase(queued);
      } else if (running != samples_.end()) {
        CountCut(generator_->Remove(running->first).value_or(0));
        results.push_back(Ended(running->second, FinishReason::kAbort, Cancelled("cancelled")));
        samples_.erase(running);
        stats_.running = generator_->running();
      }
    }
    Deliver(std::move(results));
  }

  // Counts tokens of samples that will not be delivered.
  void CountCut(std::int64_t tokens) REQUIRES(mutex_) {
    stats_.generated_tokens += tokens;
    stats_.cut_tokens += tokens;
  }

  // Applies a pending weight update. To drain, it waits for the samples in flight; no other starts
  // meanwhile.
  void ApplyUpdate() {
    std::optional<WeightUpdate> update;
    {
      MutexLock lock(mutex_);
      if (!update_ || (in_flight_ == InFlight::kDrain && !samples_.empty())) return;
      update = std::exchange(update_, std::nullopt);
    }
    Status status = Guarded([&] {
      update->apply(*decoder_);
      return OkStatus();
    });
    std::int64_t cut = 0;
    if (status.ok()) {
      if (generator_) {
        if (in_flight_ == InFlight::kAbort) cut = generator_->Restart();
        generator_->WeightsChanged(in_flight_ == InFlight::kKeepKv);
      }
      history_.Add(update->version);
    }
    MutexLock lock(mutex_);
    CountCut(cut);
    if (status.ok()) version_ = update->version;
    update_status_ = std::move(status);
    changed_.NotifyAll();
  }

  // Passes submitted samples to the generator.
  void AddSubmitted() {
    std::deque<SampleRequest> submitted;
    {
      MutexLock lock(mutex_);
      if (update_ && in_flight_ == InFlight::kDrain) return;
      submitted.swap(submitted_);
    }
    std::vector<EngineResult> results;
    std::int64_t prompt_tokens = 0;
    const Status ready = submitted.empty() ? OkStatus() : EnsureGenerator();
    for (SampleRequest& sample : submitted) {
      const std::uint64_t key = next_key_++;
      const Status added =
          ready.ok()
              ? generator_->Add(key, sample.prompt_token_ids, sample.sampling, tokenizer_,
                                {sample.begun.token_ids, sample.begun.logprobs}, sample.extras)
              : ready;
      if (!added.ok()) {
        results.push_back(Ended(sample, FinishReason::kError, added));
        continue;
      }
      prompt_tokens += static_cast<std::int64_t>(sample.prompt_token_ids.size());
      samples_.emplace(key, std::move(sample));
    }
    MutexLock lock(mutex_);
    stats_.prompt_tokens += prompt_tokens;
    Deliver(std::move(results));
  }

  void Step() {
    if (samples_.empty()) return;
    std::vector<GeneratedSequence> finished;
    const Status status = Guarded([&] {
      finished = generator_->Step();
      return OkStatus();
    });
    history_.RecordStep();
    std::vector<EngineResult> results;
    std::int64_t tokens = 0;
    for (GeneratedSequence& sequence : finished) {
      const auto it = samples_.find(sequence.key);
      tokens += static_cast<std::int64_t>(sequence.token_ids.size());
      results.push_back(Finished(it->second, std::move(sequence)));
      samples_.erase(it);
    }
    if (!status.ok()) Recover(status);
    if (samples_.empty()) history_.Trim();
    MutexLock lock(mutex_);
    stats_.generated_tokens += tokens;
    stats_.running = generator_ ? generator_->running() : 0;
    Deliver(std::move(results));
  }

  // Ends all samples and drops the generator, because a failed step leaves its cache in an unknown
  // state.
  void Recover(const Status& status) {
    Log(LogLevel::kError, "generation failed",
        {{"error", status.message()}, {"samples", samples_.size()}});
    std::vector<EngineResult> results;
    for (const auto& [key, sample] : samples_)
      results.push_back(Ended(sample, FinishReason::kError, status));
    samples_.clear();
    const std::int64_t cut = generator_->Restart();
    generator_.reset();
    MutexLock lock(mutex_);
    CountCut(cut);
    Deliver(std::move(results));
  }

  // Creates a generator if there is none.
  Status EnsureGenerator() {
    if (generator_) return OkStatus();
    return Guarded([&] {
      generator_ = std::make_unique<Generator>(*decoder_, options_);
      return OkStatus();
    });
  }

  // Returns what `function` returns, or the Status of its exception.
  template <class Function>
  std::invoke_result_t<Function> Guarded(const Function& function) const {
    try {
      return function();
    } catch (const std::exception& error) {
      return StatusOf(error, SizesToLower(options_));
    }
  }

  static EngineResult Ended(const SampleRequest& sample, FinishReason reason, Status status) {
    EngineResult result;
    result.id = sample.id;
    result.finish_reason = reason;
    result.status = std::move(status);
    return result;
  }

  EngineResult Finished(const SampleRequest& sample, GeneratedSequence sequence) const {
    const bool failed = sequence.finish_reason == FinishReason::kError;
    return ResultOf(sample, std::move(sequence),
                    failed ? Internal("a logit is NaN or infinite; check the weights of the model")
                           : OkStatus());
  }

  EngineResult ResultOf(const SampleRequest& sample, GeneratedSequence sequence,
                        Status status) const {
    EngineResult result = Ended(sample, sequence.finish_reason, std::move(status));
    result.segments = history_.SegmentsOf(sequence, sample.begun.segments);
    result.token_ids = std::move(sequence.token_ids);
    result.logprobs = std::move(sequence.logprobs);
    result.top_logprobs = std::move(sequence.top_logprobs);
    result.prompt_logprobs = std::move(sequence.prompt_logprobs);
    return result;
  }

  void Deliver(std::vector<EngineResult> results) REQUIRES(mutex_) {
    if (results.empty()) return;
    results_.insert(results_.end(), std::make_move_iterator(results.begin()),
                    std::make_move_iterator(results.end()));
    changed_.NotifyAll();
  }

  const std::unique_ptr<CachedDecoder> decoder_;
  const GeneratorOptions options_;
  const int threads_;
  const Tokenizer* const tokenizer_;
  const InFlight in_flight_;
  const std::size_t queue_limit_;

  std::unique_ptr<Generator> generator_;  // null after a failed step, until the next sample
  VersionHistory history_;
  std::unordered_map<std::uint64_t, SampleRequest> samples_;  // by key of the generator
  std::uint64_t next_key_ = 0;

  Mutex update_mutex_;  // held during UpdateWeights; locked before mutex_
  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::deque<SampleRequest> submitted_ GUARDED_BY(mutex_);
  std::vector<SampleId> cancelled_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  bool unfinished_wanted_ GUARDED_BY(mutex_) = false;
  std::optional<std::vector<EngineResult>> unfinished_ GUARDED_BY(mutex_);
  std::size_t inside_ GUARDED_BY(mutex_) = 0;  // samples submitted and not yet returned by Poll
  std::optional<WeightUpdate> update_ GUARDED_BY(mutex_);
  std::optional<Status> update_status_ GUARDED_BY(mutex_);
  PolicyVersion version_ GUARDED_BY(mutex_);
  EngineStats stats_ GUARDED_BY(mutex_);
  std::thread thread_;
};

GeneratorOptions OptionsOf(const WorkerConfig& worker) {
  GeneratorOptions options;
  options.max_running = worker.max_running;
  options.kv_cache_tokens = worker.kv_cache_tokens;
  return options;
}

Result<std::unique_ptr<InferenceEngine>> Make(const ModelPathConfig& model,
                                              const WorkerConfig& worker, PolicyVersion initial,
                                              const Tokenizer* tokenizer, InFlight in_flight) {
  ModelDevice device{.cuda = worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index,
                              OpenGpu(worker.gpu, "this worker", "local.worker.device: cpu"));
    Log(kWarn,
        "the embedded engine samples on a GPU for tests; in production vLLM samples, many times "
        "as fast",
        {{"set", "local.worker.engine: vllm"}});
  }
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(model.path));
  BUTTRESS_ASSIGN_OR_RETURN(const at::Device place, OpenDevice(device));
  const at::ScalarType dtype = ScalarTypeOf(model.dtype);
  BUTTRESS_ASSIGN_OR_RETURN(const auto weights,
                            StoredWeights::Open(model.path, config, dtype, place));
  const std::int64_t threads =
      worker.threads > 0 ? worker.threads : std::max(1U, std::thread::hardware_concurrency());
  auto decoder = std::make_unique<CachedDecoder>(config, dtype, place);
  decoder->SetWeights(weights);
  return std::unique_ptr<InferenceEngine>(std::make_unique<EmbeddedEngine>(
      std::move(decoder), OptionsOf(worker), static_cast<int>(threads), std::move(initial),
      tokenizer, in_flight));
}

}  // namespace

Result<std::unique_ptr<InferenceEngine>> MakeEmbeddedEngine(const ModelPathConfig& model,
                                                            const WorkerConfig& worker,
                                                            PolicyVersion initial,
                                                            const Tokenizer* tokenizer,
                                                            InFlight in_flight) {
  try {
    return Make(model, worker, std::move(initial), tokenizer, in_flight);
  } catch (const std::exception& error) {
    return StatusOf(error, SizesToLower(OptionsOf(worker))).Annotate(model.path);
  }
}

}  // namespace buttress
