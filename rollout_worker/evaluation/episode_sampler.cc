#include "rollout_worker/evaluation/episode_sampler.h"

#include <chrono>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/experience/episode_ends.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/episodes/episode_engine.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kStepWait(100);

// A sampler as the engine of the policy. Only the thread that polls uses the sampler.
class SamplerEngine : public InferenceEngine {
 public:
  explicit SamplerEngine(EvalSampler& sampler) : sampler_(sampler) {}

  Status Submit(SampleRequest request) override {
    MutexLock lock(mutex_);
    submitted_.push_back(std::move(request));
    changed_.NotifyAll();
    return OkStatus();
  }

  // Samplers cannot: an answer that nobody waits for is sampled to its end.
  void Cancel(SampleId /*id*/) override {}

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    std::vector<EngineResult> results;
    std::deque<SampleRequest> submitted;
    {
      MutexLock lock(mutex_);
      if (open_.empty())
        changed_.WaitFor(mutex_, timeout,
                         [this]() REQUIRES(mutex_) { return !submitted_.empty(); });
      submitted.swap(submitted_);
    }
    for (SampleRequest& request : submitted) AddSample(request, results);
    if (open_.empty()) return results;
    Result<std::vector<SampledCompletion>> sampled = sampler_.Step();
    if (!sampled.ok()) {
      Fail(sampled.status(), results);
      return results;
    }
    for (SampledCompletion& completion : *sampled) results.push_back(ResultOf(completion));
    return results;
  }

  Status UpdateWeights(const WeightManifest& /*manifest*/) override {
    return FailedPrecondition("an evaluation keeps its weights");
  }

  PolicyVersion version() const override { return {}; }

  EngineStats stats() const override { return {}; }

  // Why the sampler failed; OK while it works.
  Status failure() const {
    MutexLock lock(mutex_);
    return failure_;
  }

 private:
  static EngineResult Failed(const SampleId& id, Status status) {
    EngineResult result;
    result.id = id;
    result.finish_reason = FinishReason::kError;
    result.status = std::move(status);
    return result;
  }

  void AddSample(SampleRequest& request, std::vector<EngineResult>& results) {
    Prompt prompt;
    prompt.token_ids = std::move(request.prompt_token_ids);
    const std::uint64_t key = next_key_++;
    const Status added = sampler_.Add(key, prompt, request.sampling);
    if (added.ok()) {
      open_.emplace(key, request.id);
    } else {
      results.push_back(Failed(request.id, added));
    }
  }

  // The evaluation ends; until then its episodes have no answers.
  void Fail(const Status& status, std::vector<EngineResult>& results) {
    for (const auto& [key, id] : open_)
      results.push_back(Failed(id, Unavailable("the sampler failed")));
    open_.clear();
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }

  EngineResult ResultOf(SampledCompletion& completion) {
    const SampleId id = open_.extract(completion.key).mapped();
    if (completion.finish_reason == FinishReason::kError)
      return Failed(id, OutOfRange("the conversation has no room for an answer"));
    EngineResult result;
    result.id = id;
    result.finish_reason = completion.finish_reason;
    result.token_ids = std::move(completion.token_ids);
    result.logprobs.assign(result.token_ids.size(), 0);  // nothing is trained
    result.segments = {{0, PolicyVersion{}}};
    return result;
  }

  EvalSampler& sampler_;
  // Of the thread that polls.
  std::map<std::uint64_t, SampleId> open_;  // by key of the sampler
  std::uint64_t next_key_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<SampleRequest> submitted_ GUARDED_BY(mutex_);
  Status failure_ GUARDED_BY(mutex_) = OkStatus();
};

class EpisodeSampler : public EvalSampler {
 public:
  // `answers` is owned by `episodes`.
  EpisodeSampler(std::int64_t completions, const SamplerEngine& answers,
                 std::unique_ptr<InferenceEngine> episodes)
      : completions_(static_cast<std::uint64_t>(completions)),
        answers_(answers),
        episodes_(std::move(episodes)) {}

  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) override {
    SampleRequest request;
    request.id.group_id = key / completions_;
    request.id.index = static_cast<std::int32_t>(key % completions_);
    request.prompt_token_ids = prompt.token_ids;
    request.sampling = sampling;
    request.task = std::make_shared<const EpisodeTask>(
        EpisodeTask{prompt.id, prompt.source, prompt.extra_json, prompt.answer});
    BUTTRESS_RETURN_IF_ERROR(episodes_->Submit(std::move(request)));
    ++open_;
    return OkStatus();
  }

  Result<std::vector<SampledCompletion>> Step() override {
    std::vector<SampledCompletion> completions;
    for (EngineResult& result : episodes_->Poll(kStepWait)) {
      BUTTRESS_RETURN_IF_ERROR(answers_.failure());
      if (!result.episode) return result.status;
      --open_;
      SampledCompletion& completion = completions.emplace_back();
      completion.key =
          result.id.group_id * completions_ + static_cast<std::uint64_t>(result.id.index);
      completion.finish_reason = result.finish_reason;
      completion.tokens = result.sampled_tokens();
      completion.episode = std::move(result.episode);
    }
    return completions;
  }

  std::int64_t open() const override { return open_; }

  bool only_texts() const override { return false; }

 private:
  const std::uint64_t completions_;
  const SamplerEngine& answers_;
  const std::unique_ptr<InferenceEngine> episodes_;
  std::int64_t open_ = 0;
};

}  // namespace

Result<std::unique_ptr<EvalSampler>> MakeEpisodeSampler(const RunConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        std::int64_t completions,
                                                        EvalSampler& below) {
  auto answers = std::make_unique<SamplerEngine>(below);
  const SamplerEngine& engine = *answers;
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<InferenceEngine> episodes,
                            MakeEpisodeEngine(config, tokenizer, std::move(answers)));
  return std::unique_ptr<EvalSampler>(
      std::make_unique<EpisodeSampler>(completions, engine, std::move(episodes)));
}

EvalEpisode EvalEpisodeOf(const Episode& episode) {
  EvalEpisode kept;
  kept.end = kEpisodeEnds[static_cast<std::size_t>(episode.end)];
  for (const EpisodeBranch& branch : episode.branches) {
    kept.turns += static_cast<std::int64_t>(branch.turns.size());
    for (const EpisodeTurn& turn : branch.turns) {
      kept.tool_calls += static_cast<std::int64_t>(turn.tools.size());
      kept.failed_tool_calls += turn.failed_tools;
    }
  }
  return kept;
}

}  // namespace buttress
