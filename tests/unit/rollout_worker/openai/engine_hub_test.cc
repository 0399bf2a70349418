#include "rollout_worker/openai/engine_hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "tests/support/patience.h"

namespace buttress {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An engine whose samples get tokens when the test says so.
class HandEngine : public InferenceEngine {
 public:
  Status Submit(SampleRequest request) override {
    MutexLock lock(mutex_);
    if (open_.size() == most_) return ResourceExhausted("the engine is full");
    EngineResult& result = open_[request.id];
    result.id = request.id;
    return OkStatus();
  }

  void Cancel(SampleId id) override {
    MutexLock lock(mutex_);
    cancelled_.insert(id);
    End(id, FinishReason::kAbort, Cancelled("cancelled"));
  }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
    return std::exchange(results_, {});
  }

  std::vector<EngineResult> Unfinished() override {
    MutexLock lock(mutex_);
    std::vector<EngineResult> results;
    for (const auto& [id, result] : open_)
      if (!result.token_ids.empty()) results.push_back(result);
    return results;
  }

  Status UpdateWeights(const WeightManifest&) override { return OkStatus(); }

  PolicyVersion version() const override { return {}; }

  EngineStats stats() const override { return {}; }

  void Sample(SampleId id, std::int32_t token) {
    MutexLock lock(mutex_);
    if (const auto it = open_.find(id); it != open_.end()) it->second.token_ids.push_back(token);
  }

  void Stop(SampleId id) {
    MutexLock lock(mutex_);
    End(id, FinishReason::kStop, OkStatus());
  }

  void Bound(std::size_t most) {
    MutexLock lock(mutex_);
    most_ = most;
  }

  std::size_t open() {
    MutexLock lock(mutex_);
    return open_.size();
  }

  std::set<SampleId> cancelled() {
    MutexLock lock(mutex_);
    return cancelled_;
  }

 private:
  void End(SampleId id, FinishReason reason, const Status& status) REQUIRES(mutex_) {
    const auto it = open_.find(id);
    if (it == open_.end()) return;
    it->second.finish_reason = reason;
    it->second.status = status;
    results_.push_back(it->second);
    open_.erase(it);
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::size_t most_ GUARDED_BY(mutex_) = 100;
  std::map<SampleId, EngineResult> open_ GUARDED_BY(mutex_);
  std::vector<EngineResult> results_ GUARDED_BY(mutex_);
  std::set<SampleId> cancelled_ GUARDED_BY(mutex_);
};

class Watcher : public SampleWatcher {
 public:
  explicit Watcher(bool streams = false) : streams_(streams) {}

  bool streams() const override { return streams_; }

  void OnProgress(const EngineResult& so_far) override {
    MutexLock lock(mutex_);
    most_ = std::max(most_, so_far.token_ids.size());
    changed_.NotifyAll();
  }

  void OnDone(EngineResult result) override {
    MutexLock lock(mutex_);
    done_.push_back(std::move(result));
    changed_.NotifyAll();
  }

  std::vector<EngineResult> WaitForDone(std::size_t count) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.WaitFor(mutex_, kPatience,
                                 [&]() REQUIRES(mutex_) { return done_.size() >= count; }));
    return done_;
  }

  bool WaitForTokens(std::size_t count) {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, kPatience, [&]() REQUIRES(mutex_) { return most_ >= count; });
  }

  bool quiet() {
    MutexLock lock(mutex_);
    return done_.empty() && most_ == 0;
  }

 private:
  const bool streams_;
  Mutex mutex_;
  CondVar changed_;
  std::size_t most_ GUARDED_BY(mutex_) = 0;
  std::vector<EngineResult> done_ GUARDED_BY(mutex_);
};

std::vector<SampleRequest> Requests(std::size_t count) { return std::vector<SampleRequest>(count); }

TEST(EngineHubTest, EveryCallerHearsOfItsOwnSamples) {
  HandEngine engine;
  EngineHub hub(engine, 10);
  const auto one = std::make_shared<Watcher>(), two = std::make_shared<Watcher>();
  const Result<std::uint64_t> first = hub.Submit(Requests(2), one);
  const Result<std::uint64_t> second = hub.Submit(Requests(1), two);
  ASSERT_TRUE(first.ok() && second.ok());
  engine.Sample({0, *first, 1}, 7);
  engine.Stop({0, *first, 1});
  const auto done = one->WaitForDone(1);
  EXPECT_EQ(done[0].id, (SampleId{0, *first, 1}));
  EXPECT_THAT(done[0].token_ids, ElementsAre(7));
  EXPECT_TRUE(two->quiet());
  engine.Stop({0, *second, 0});
  EXPECT_EQ(two->WaitForDone(1)[0].id, (SampleId{0, *second, 0}));
  EXPECT_EQ(hub.open(), 1);
}

TEST(EngineHubTest, AStreamHearsOfTokensAsTheyCome) {
  HandEngine engine;
  EngineHub hub(engine, 10);
  const auto stream = std::make_shared<Watcher>(true), whole = std::make_shared<Watcher>();
  const Result<std::uint64_t> first = hub.Submit(Requests(1), stream);
  const Result<std::uint64_t> second = hub.Submit(Requests(1), whole);
  ASSERT_TRUE(first.ok() && second.ok());
  engine.Sample({0, *second, 0}, 1);
  for (std::int32_t t = 1; t <= 3; ++t) {
    engine.Sample({0, *first, 0}, t);
    EXPECT_TRUE(stream->WaitForTokens(static_cast<std::size_t>(t)));
  }
  engine.Stop({0, *first, 0});
  EXPECT_THAT(stream->WaitForDone(1)[0].token_ids, ElementsAre(1, 2, 3));
  EXPECT_TRUE(whole->quiet());
}

TEST(EngineHubTest, SamplesAreTakenTogetherOrNotAtAll) {
  HandEngine engine;
  EngineHub hub(engine, 4);
  const auto watcher = std::make_shared<Watcher>();
  ASSERT_TRUE(hub.Submit(Requests(3), watcher).ok());
  const Result<std::uint64_t> beyond = hub.Submit(Requests(2), watcher);
  EXPECT_EQ(beyond.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(beyond.status().message(), HasSubstr("at most 4"));
  EXPECT_EQ(hub.open(), 3);
  EXPECT_TRUE(watcher->quiet());
}

TEST(EngineHubTest, SamplesWaitForAnEngineThatIsFull) {
  HandEngine engine;
  engine.Bound(1);
  EngineHub hub(engine, 4);
  const auto one = std::make_shared<Watcher>(), two = std::make_shared<Watcher>();
  const Result<std::uint64_t> first = hub.Submit(Requests(3), one);
  const Result<std::uint64_t> last = hub.Submit(Requests(1), two);
  ASSERT_TRUE(first.ok() && last.ok());
  EXPECT_EQ(engine.open(), 1U);
  EXPECT_EQ(hub.open(), 4);
  engine.Stop({0, *first, 0});
  while (engine.open() == 0) std::this_thread::yield();
  hub.Cancel(*first);
  EXPECT_EQ(one->WaitForDone(3)[0].id.index, 0);
  EXPECT_THAT(engine.cancelled(), Contains(SampleId{0, *first, 1}));
  while (engine.open() == 0) std::this_thread::yield();
  engine.Stop({0, *last, 0});
  EXPECT_EQ(two->WaitForDone(1)[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(hub.open(), 0);
}

TEST(EngineHubTest, CancelEndsTheSamplesOfAGroupAlone) {
  HandEngine engine;
  EngineHub hub(engine, 10);
  const auto one = std::make_shared<Watcher>(), two = std::make_shared<Watcher>();
  const Result<std::uint64_t> first = hub.Submit(Requests(2), one);
  ASSERT_TRUE(first.ok() && hub.Submit(Requests(2), two).ok());
  hub.Cancel(*first);
  for (const EngineResult& result : one->WaitForDone(2))
    EXPECT_EQ(result.status.code(), StatusCode::kCancelled);
  EXPECT_THAT(engine.cancelled(), ElementsAre(SampleId{0, *first, 0}, SampleId{0, *first, 1}));
  EXPECT_EQ(hub.open(), 2);
  EXPECT_TRUE(two->quiet());
}

TEST(EngineHubTest, APauseEndsSamplesWithTheirTokensAndHoldsLaterOnes) {
  HandEngine engine;
  EngineHub hub(engine, 10);
  const auto before = std::make_shared<Watcher>(), after = std::make_shared<Watcher>();
  const Result<std::uint64_t> first = hub.Submit(Requests(2), before);
  ASSERT_TRUE(first.ok());
  engine.Sample({0, *first, 0}, 5);
  StopSignal paused;
  hub.Pause([&paused] { paused.Stop(); });
  ASSERT_TRUE(paused.WaitFor(kPatience));
  const auto done = before->WaitForDone(2);
  for (const EngineResult& result : done) {
    EXPECT_EQ(result.finish_reason, FinishReason::kAbort);
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.token_ids.size(), result.id.index == 0 ? 1U : 0U);
  }
  EXPECT_EQ(engine.open(), 0U);

  const Result<std::uint64_t> held = hub.Submit(Requests(1), after);
  const Result<std::uint64_t> gone = hub.Submit(Requests(1), before);
  ASSERT_TRUE(held.ok() && gone.ok());
  hub.Cancel(*gone);
  EXPECT_EQ(before->WaitForDone(3)[2].status.code(), StatusCode::kCancelled);
  EXPECT_EQ(engine.open(), 0U);
  StopSignal again;
  hub.Pause([&again] { again.Stop(); });
  ASSERT_TRUE(again.WaitFor(kPatience));
  EXPECT_TRUE(after->quiet());
  hub.Resume();
  EXPECT_EQ(engine.open(), 1U);
  engine.Stop({0, *held, 0});
  EXPECT_EQ(after->WaitForDone(1)[0].finish_reason, FinishReason::kStop);
}

TEST(EngineHubTest, TheEndOfTheHubCancelsWhatIsOpen) {
  HandEngine engine;
  const auto watcher = std::make_shared<Watcher>();
  {
    EngineHub hub(engine, 10);
    ASSERT_TRUE(hub.Submit(Requests(2), watcher).ok());
    hub.Pause([] {});
    ASSERT_TRUE(hub.Submit(Requests(1), watcher).ok());
  }
  for (const EngineResult& result : watcher->WaitForDone(3))
    EXPECT_EQ(result.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(engine.open(), 0U);
}

}  // namespace
}  // namespace buttress
