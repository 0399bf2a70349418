// An engine whose answers a test writes: a function of the prompt. An answer ends with the stop
// token of the request, or at max_tokens.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

class ScriptedPolicy : public InferenceEngine {
 public:
  // Receives the text of the prompt with its special tokens, and the seed.
  using Script = std::function<std::string(const std::string& prompt, std::uint64_t seed)>;

  ScriptedPolicy(const Tokenizer& tokenizer, Script script)
      : tokenizer_(tokenizer), script_(std::move(script)) {}

  // While stalled, samples stay in flight.
  void Stall(bool stalled) {
    MutexLock lock(mutex_);
    stalled_ = stalled;
    AnswerAll();
  }

  // Every sample ends like this from now on, unless it is OK.
  void Fail(Status failure) {
    MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }

  std::size_t in_flight() const {
    MutexLock lock(mutex_);
    return requests_.size();
  }

  std::vector<SampleRequest> asked() const {
    MutexLock lock(mutex_);
    return asked_;
  }

  Status Submit(SampleRequest request) override {
    MutexLock lock(mutex_);
    asked_.push_back(request);
    requests_.emplace(request.id, std::move(request));
    AnswerAll();
    return OkStatus();
  }

  void Cancel(SampleId id) override {
    MutexLock lock(mutex_);
    if (requests_.erase(id) == 0) return;
    EngineResult result;
    result.id = id;
    result.finish_reason = FinishReason::kAbort;
    result.status = Cancelled("cancelled");
    results_.push_back(std::move(result));
    changed_.NotifyAll();
  }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
    return std::exchange(results_, {});
  }

  Status UpdateWeights(const WeightManifest& manifest) override {
    MutexLock lock(mutex_);
    version_ = manifest.version;
    return OkStatus();
  }

  bool Sleep() override {
    MutexLock lock(mutex_);
    ++sleeps_;
    return true;
  }

  int sleeps() const {
    MutexLock lock(mutex_);
    return sleeps_;
  }

  PolicyVersion version() const override {
    MutexLock lock(mutex_);
    return version_;
  }

  EngineStats stats() const override {
    MutexLock lock(mutex_);
    EngineStats stats;
    stats.generated_tokens = generated_;
    return stats;
  }

 private:
  void AnswerAll() REQUIRES(mutex_) {
    if (stalled_) return;
    for (auto& [id, request] : requests_) results_.push_back(Answer(request));
    requests_.clear();
    changed_.NotifyAll();
  }

  EngineResult Answer(const SampleRequest& request) REQUIRES(mutex_) {
    EngineResult result;
    result.id = request.id;
    if (!failure_.ok()) {
      result.finish_reason = FinishReason::kError;
      result.status = failure_;
      return result;
    }
    const auto most = static_cast<std::size_t>(request.sampling.max_tokens);
    const std::string prompt = *tokenizer_.Decode(request.prompt_token_ids, SpecialTokens::kKeep);
    result.token_ids = *tokenizer_.Encode(script_(prompt, request.sampling.seed));
    result.token_ids.push_back(request.sampling.stop_token_ids.front());
    result.finish_reason =
        result.token_ids.size() > most ? FinishReason::kLength : FinishReason::kStop;
    result.token_ids.resize(std::min(most, result.token_ids.size()));
    result.logprobs.assign(result.token_ids.size(), -0.5F);
    result.segments = {{0, version_}};
    generated_ += static_cast<std::int64_t>(result.token_ids.size());
    return result;
  }

  const Tokenizer& tokenizer_;
  const Script script_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stalled_ GUARDED_BY(mutex_) = false;
  int sleeps_ GUARDED_BY(mutex_) = 0;
  Status failure_ GUARDED_BY(mutex_);
  PolicyVersion version_ GUARDED_BY(mutex_);
  std::int64_t generated_ GUARDED_BY(mutex_) = 0;
  std::map<SampleId, SampleRequest> requests_ GUARDED_BY(mutex_);
  std::vector<SampleRequest> asked_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
};

}  // namespace buttress
