#include "rollout_worker/episodes/episode_engine.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/chat/tool_calls.h"
#include "rollout_worker/openai/engine_hub.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kWaitSlice(200);
// Every episode bounds its own calls.
constexpr std::int64_t kMostOpen = std::numeric_limits<std::int64_t>::max();

class EpisodeEngine : public InferenceEngine {
 public:
  EpisodeEngine(std::unique_ptr<InferenceEngine> below, std::unique_ptr<EpisodeCodec> codec,
                std::unique_ptr<EpisodeRunner> runner, std::size_t running)
      : below_(std::move(below)),
        codec_(std::move(codec)),
        hub_(*below_, kMostOpen),
        runner_(std::move(runner)),
        most_running_(running) {}

  ~EpisodeEngine() override {
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      stop_ = true;
      threads.swap(threads_);
      waiting_.clear();
      for (const auto& [id, episode] : live_) episode->Cancel();
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads) thread.join();
  }

  EpisodeEngine(const EpisodeEngine&) = delete;
  EpisodeEngine& operator=(const EpisodeEngine&) = delete;

  Status Submit(SampleRequest request) override {
    if (!request.task) return InvalidArgument("a sample without the task of an episode");
    MutexLock lock(mutex_);
    waiting_.push_back(std::move(request));
    if (threads_.size() < most_running_ && waiting_.size() > threads_.size() - live_.size())
      threads_.emplace_back([this] { Work(); });
    changed_.NotifyAll();
    return OkStatus();
  }

  void Cancel(SampleId id) override {
    std::shared_ptr<LiveEpisode> running;
    {
      MutexLock lock(mutex_);
      if (const auto live = live_.find(id); live != live_.end()) {
        running = live->second;
      } else if (std::erase_if(waiting_, [&](const SampleRequest& r) { return r.id == id; }) > 0) {
        EngineResult result;
        result.id = id;
        result.finish_reason = FinishReason::kAbort;
        result.status = Cancelled("cancelled");
        results_.push_back(std::move(result));
        changed_.NotifyAll();
      }
    }
    if (running) running->Cancel();
  }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
    return std::exchange(results_, {});
  }

  Status UpdateWeights(const WeightManifest& manifest) override {
    return below_->UpdateWeights(manifest);
  }

  void InterruptUpdate() override { below_->InterruptUpdate(); }

  void StopUpdates() override { below_->StopUpdates(); }

  // An episode asks again, even while no answer is being sampled.
  bool Sleep() override {
    {
      MutexLock lock(mutex_);
      if (!live_.empty() || !waiting_.empty()) return false;
    }
    return below_->Sleep();
  }

  PolicyVersion version() const override { return below_->version(); }

  EngineStats stats() const override {
    // In this order, so that no token is cut before it is generated.
    const std::int64_t lost = lost_;
    EngineStats stats = below_->stats();
    stats.cut_tokens += lost;
    MutexLock lock(mutex_);
    stats.running = static_cast<std::int64_t>(live_.size());
    stats.waiting = static_cast<std::int64_t>(waiting_.size());
    return stats;
  }

 private:
  std::shared_ptr<LiveEpisode> Next() {
    MutexLock lock(mutex_);
    const auto any = [this]() REQUIRES(mutex_) { return stop_ || !waiting_.empty(); };
    while (!changed_.WaitFor(mutex_, kWaitSlice, any)) {
    }
    if (stop_) return nullptr;
    const SampleId id = waiting_.front().id;
    auto episode =
        std::make_shared<LiveEpisode>(std::move(waiting_.front()), codec_->parts(), hub_, lost_);
    waiting_.pop_front();
    live_[id] = episode;
    return episode;
  }

  void Work() {
    while (const std::shared_ptr<LiveEpisode> episode = Next()) {
      runner_->Run(*episode);
      EngineResult result = episode->Take();
      MutexLock lock(mutex_);
      live_.erase(result.id);
      results_.push_back(std::move(result));
      changed_.NotifyAll();
    }
  }

  const std::unique_ptr<InferenceEngine> below_;
  const std::unique_ptr<EpisodeCodec> codec_;
  std::atomic<std::int64_t> lost_ = 0;  // tokens that were sampled and that no episode has
  EngineHub hub_;                       // of the runner, so it ends later
  const std::unique_ptr<EpisodeRunner> runner_;
  const std::size_t most_running_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::deque<SampleRequest> waiting_ GUARDED_BY(mutex_);
  std::map<SampleId, std::shared_ptr<LiveEpisode>> live_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<EpisodeCodec>> EpisodeCodec::Create(const RunSettings& run,
                                                           const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(TextEncoder encoder,
                            TextEncoder::Create(tokenizer, run.data.template_arguments));
  std::unique_ptr<EpisodeCodec> codec(new EpisodeCodec(run, std::move(encoder)));
  codec->format_ = run.env.tool_format == ToolFormat::kAuto ? FormatOf(tokenizer.chat_template())
                                                            : run.env.tool_format;
  const bool builtin = run.env.kind == EnvKind::kBuiltin;
  if (!codec->encoder_.has_chat_template()) {
    if (!builtin) return codec;
    return InvalidArgument(
        "run.env.kind = builtin holds chats, and the model has no chat template; give it one in "
        "chat_template.jinja");
  }
  const bool tools = !builtin || run.env.name == BuiltinEnv::kTools;
  Result<TurnEncoder> turns = TurnEncoder::Create(codec->encoder_, tools);
  // An agent may use none.
  if (!turns.ok() && !builtin) turns = TurnEncoder::Create(codec->encoder_, false);
  if (!turns.ok()) return turns.status().Annotate("run.env with the model's chat template");
  codec->turns_ = *std::move(turns);
  return codec;
}

std::unique_ptr<InferenceEngine> MakeEpisodeEngine(std::unique_ptr<InferenceEngine> below,
                                                   std::unique_ptr<EpisodeCodec> codec,
                                                   std::unique_ptr<EpisodeRunner> runner,
                                                   std::size_t running) {
  return std::make_unique<EpisodeEngine>(std::move(below), std::move(codec), std::move(runner),
                                         running);
}

}  // namespace buttress
