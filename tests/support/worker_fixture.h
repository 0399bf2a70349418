// A worker with fakes on every side, running on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lib/base/report/metrics.h"
#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/weights/manifest.h"
#include "rollout_worker/worker.h"
#include "tests/support/fakes/fake_coordinator.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/fakes/fake_scoring.h"
#include "tests/support/patience.h"

namespace buttress {

// Tokens are themselves: 7 is "7 ".
class FakeTokenizer : public Tokenizer {
 public:
  Result<std::vector<std::int32_t>> Encode(std::string_view) const override {
    return std::vector<std::int32_t>{};
  }

  std::vector<std::int32_t> AddSpecialTokens(std::vector<std::int32_t> tokens) const override {
    return tokens;
  }

  Result<std::string> Decode(std::span<const std::int32_t> tokens, SpecialTokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += std::to_string(token) + " ";
    return text;
  }

  std::int32_t vocab_size() const override { return 100; }

  std::int32_t TokenId(std::string_view) const override { return -1; }

  std::int32_t AddedTokenId(std::string_view) const override { return -1; }

  std::string TokenBytes(std::int32_t token) const override { return std::to_string(token) + " "; }

  std::int32_t eos_token_id() const override { return -1; }

  std::int32_t pad_token_id() const override { return -1; }

  const std::map<std::string, std::string>& special_tokens() const override {
    return special_tokens_;
  }

  const std::string& chat_template() const override { return empty_; }

 private:
  const std::map<std::string, std::string> special_tokens_ = {};
  std::string empty_;
};

// Every version is there, except that the next `fail` fetches are not.
class FakeFetcher : public WeightFetcher {
 public:
  void FailNext(int count, Status status) {
    MutexLock lock(mutex_);
    fail_ = count;
    status_ = std::move(status);
  }

  // While held, a fetch ends only when it is no longer wanted.
  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }

  // Waits until `count` fetches have begun.
  bool WaitForFetches(int count) {
    MutexLock lock(mutex_);
    return changed_.WaitFor(mutex_, kPatience,
                            [&]() REQUIRES(mutex_) { return fetches_ >= count; });
  }

  Result<WeightManifest> Fetch(const WeightManifest& manifest,
                               const std::function<bool()>& unwanted) override {
    MutexLock lock(mutex_);
    ++fetches_;
    changed_.NotifyAll();
    while (held_) {
      if (unwanted()) return Cancelled("no longer wanted");
      changed_.WaitFor(mutex_, std::chrono::milliseconds(5),
                       [this]() REQUIRES(mutex_) { return !held_; });
    }
    if (fail_ == 0) return manifest;
    --fail_;
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool held_ GUARDED_BY(mutex_) = false;
  int fetches_ GUARDED_BY(mutex_) = 0;
  int fail_ GUARDED_BY(mutex_) = 0;
  Status status_ GUARDED_BY(mutex_);
};

inline WeightManifest ManifestAt(std::uint64_t step) {
  WeightManifest manifest;
  manifest.version = {1, step, ""};
  manifest.files = {{"model.safetensors", step, Sha256Of(std::to_string(step))}};
  manifest.version.digest = ManifestDigest(manifest);
  return manifest;
}

// Group `id` under lease epoch `epoch`: four completions of the prompt {1, 2}.
inline v1::Lease LeaseOf(std::uint64_t id, std::uint64_t epoch = 1) {
  v1::Lease lease;
  lease.mutable_ref()->set_group_id(id);
  lease.mutable_ref()->set_lease_epoch(epoch);
  lease.set_prompt_id("p" + std::to_string(id));
  lease.set_source("numbers");
  lease.add_prompt_token_ids(1);
  lease.add_prompt_token_ids(2);
  lease.set_completions(4);
  SamplingParams sampling;
  sampling.seed = id;
  *lease.mutable_sampling() = ToProto(sampling);
  lease.set_ttl_ms(3000);
  return lease;
}

class WorkerFixture : public ::testing::Test {
 protected:
  ~WorkerFixture() override { Stop().IgnoreError(); }

  void Start(WorkerOptions options = DefaultOptions()) {
    client_ = std::make_unique<CoordinatorClient>(
        CoordinatorClientOptions{coordinator_.address(), "", 10000});
    v1::RegisterWorkerRequest self;
    self.set_worker_id(options.worker_id);
    self.set_incarnation(77);
    registration_ = std::make_unique<WorkerRegistration>(self);
    session_ = std::make_unique<CoordinatorSession>(*client_, *registration_);
    worker_ =
        std::make_unique<Worker>(WorkerParts{*session_, *session_, engine_, scoring_, controls_,
                                             fetcher_, tokenizer_, worker_metrics_},
                                 std::move(options));
    thread_ = std::thread([this] { status_ = worker_->Run(); });
  }

  static WorkerOptions DefaultOptions() {
    WorkerOptions options;
    options.worker_id = "w0";
    options.capacity_groups = 4;
    options.poll_ms = 100;
    return options;
  }

  // What Run returned.
  Status Stop() {
    if (worker_ != nullptr) worker_->RequestDrain();
    return Join();
  }

  Status Join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

  FakeCoordinator coordinator_;
  FakeEngine engine_;
  FakeScoring scoring_;
  ControlScorer controls_{*VerifierSet::Make(RewardConfig()), RewardConfig(), nullptr};
  FakeFetcher fetcher_;
  FakeTokenizer tokenizer_;
  Metrics metrics_{"worker"};
  WorkerMetrics worker_metrics_{metrics_};
  std::unique_ptr<CoordinatorClient> client_;
  std::unique_ptr<WorkerRegistration> registration_;
  std::unique_ptr<CoordinatorSession> session_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
  Status status_;
};

}  // namespace buttress
