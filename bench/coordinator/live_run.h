// What happens in a run besides the submissions: polls of busy workers, a learner, leases that are
// lost, and a caller that measures how long an Exchange takes that need not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_config.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/manifest.h"

namespace buttress {

inline constexpr char kWorkerSecret[] = "the secret of every worker here.";
inline constexpr std::uint32_t kWaitMs = 60000;  // the coordinator holds a call for less
inline constexpr std::chrono::milliseconds kProbeEvery(10);
inline constexpr std::uint32_t kLostGroups = 4;  // leases of a worker that is never heard of again
inline constexpr std::chrono::milliseconds kLostEvery(250);
inline constexpr std::chrono::seconds kConnectTime(60);

// The job of a learner that has registered.
struct LearnerJob {
  std::string run_id;
  std::uint64_t epoch = 0;
  std::string secret;
};

// Returns the leases that a worker holds now. Thread-safe.
using Held = std::function<std::vector<v1::LeaseRef>(std::int64_t worker)>;

// Returns the stub of a connection of its own, which is open unless no coordinator answers.
inline std::unique_ptr<v1::Coordinator::Stub> Connect(const std::string& address) {
  const auto channel = MakeChannel(address);
  channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTime);
  return v1::Coordinator::NewStub(channel);
}

// Announces weights of `step`, which workers never load.
inline Status AnnounceStep(CoordinatorClient& client, const LearnerJob& job, std::uint64_t step) {
  WeightManifest manifest;
  manifest.version = {job.epoch, step, ""};
  manifest.files = {{"model.safetensors", 1, Sha256Of("weights")}};
  manifest.version.digest = ManifestDigest(manifest);
  manifest.run_id = job.run_id;
  v1::AnnounceWeightsRequest announcement;
  announcement.set_run_id(job.run_id);
  announcement.set_learner_epoch(job.epoch);
  announcement.set_learner_secret(job.secret);
  *announcement.mutable_manifest() = ManifestToProto(manifest);
  return client.AnnounceWeights(announcement);
}

// Returns the id of the run; empty if the worker could not be registered.
inline std::string Register(v1::Coordinator::Stub& stub, const RunConfig& config,
                            const std::string& worker) {
  v1::RegisterWorkerRequest self;
  self.set_worker_id(worker);
  self.set_incarnation(1);
  self.set_config_sha256(RunConfigHash(config));
  self.set_worker_secret(kWorkerSecret);
  v1::RegisterWorkerResponse registered;
  grpc::ClientContext context;
  return stub.RegisterWorker(&context, self, &registered).ok() ? registered.run_id() : "";
}

// Takes a few leases again and again, under a new name each time, and lets them expire.
class LostWorkers {
 public:
  LostWorkers(const RunConfig& config, const std::string& address) {
    thread_ = std::thread([this, &config, address] {
      const auto stub = Connect(address);
      for (int n = 0; !stopping_; ++n) {
        v1::ExchangeRequest request;
        request.set_worker_id("lost-" + std::to_string(n));
        request.set_incarnation(1);
        request.set_worker_secret(kWorkerSecret);
        request.set_capacity(kLostGroups);
        request.set_run_id(Register(*stub, config, request.worker_id()));
        v1::ExchangeResponse response;
        grpc::ClientContext context;
        if (!stub->Exchange(&context, request, &response).ok()) return;
        std::this_thread::sleep_for(kLostEvery);
      }
    });
  }

  ~LostWorkers() {
    stopping_ = true;
    thread_.join();
  }

  LostWorkers(const LostWorkers&) = delete;
  LostWorkers& operator=(const LostWorkers&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// A worker whose Exchange is always open.
class ParkedPoll {
 public:
  ParkedPoll(std::int64_t index, const std::string& address, const std::string& run_id,
             const Held& held)
      : index_(index), held_(held), stub_(Connect(address)) {
    request_.set_run_id(run_id);
    request_.set_worker_id("w" + std::to_string(index));
    request_.set_incarnation(static_cast<std::uint64_t>(index) + 1);
    request_.set_worker_secret(kWorkerSecret);
    request_.set_wait_ms(kWaitMs);
    Next();
  }

  void Stop() {
    stopping_ = true;
    context_->TryCancel();
  }

  void Wait() const {
    while (!ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  void Next() {
    request_.clear_held();
    for (v1::LeaseRef& lease : held_(index_)) *request_.add_held() = std::move(lease);
    context_ = std::make_unique<grpc::ClientContext>();
    stub_->async()->Exchange(context_.get(), &request_, &response_, [this](const grpc::Status& s) {
      if (stopping_ || !s.ok()) {
        ended_ = true;
        return;
      }
      if (response_.has_weights())
        *request_.mutable_loaded_version() = response_.weights().version();
      Next();
    });
  }

  const std::int64_t index_;
  const Held& held_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  v1::ExchangeRequest request_;
  v1::ExchangeResponse response_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> ended_ = false;
};

// Starts everything but Measure in its constructor, and ends it in its destructor.
class LiveRun {
 public:
  // Each of `workers` (w0, w1, ...) keeps an Exchange open that renews its leases and takes no
  // more. The learner takes every plan, commits, announces and settles it.
  LiveRun(const RunConfig& config, const std::string& address, std::int64_t workers, Held held,
          LearnerJob learner)
      : config_(config), address_(address), held_(std::move(held)), job_(std::move(learner)) {
    for (std::int64_t i = 0; i < workers; ++i)
      polls_.push_back(std::make_unique<ParkedPoll>(i, address, job_.run_id, held_));
    learner_ = std::thread([this] {
      const Status status = Learn();
      if (!status.ok() && !stopping_)
        std::fprintf(stderr, "learner: %s\n", status.message().c_str());
    });
  }

  ~LiveRun() { Stop(); }

  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  // Begins to measure an Exchange that need not wait, again and again.
  void Measure() {
    prober_ = std::thread([this] { Probe(); });
  }

  // Ends the run's other calls and returns the milliseconds of each measured Exchange.
  std::vector<double> Stop() {
    stopping_ = true;
    for (const auto& poll : polls_) poll->Stop();
    for (const auto& poll : polls_) poll->Wait();
    if (prober_.joinable()) prober_.join();
    if (learner_.joinable()) learner_.join();
    return std::move(milliseconds_);
  }

  // Steps that the learner has settled.
  std::uint64_t steps() const { return steps_; }

 private:
  Status Learn() {
    CoordinatorClient client(CoordinatorClientOptionsFrom(config_.local));
    for (std::uint64_t step = 1; !stopping_; ++step) {
      BUTTRESS_ASSIGN_OR_RETURN(const bool planned, WaitForPlan(client, step));
      if (!planned) return OkStatus();
      v1::CommitRequest commit;
      commit.set_run_id(job_.run_id);
      commit.set_learner_epoch(job_.epoch);
      commit.set_learner_secret(job_.secret);
      commit.set_step(step);
      commit.mutable_version()->set_learner_epoch(job_.epoch);
      commit.mutable_version()->set_step(step);
      BUTTRESS_RETURN_IF_ERROR(client.Commit(commit));
      BUTTRESS_RETURN_IF_ERROR(AnnounceStep(client, job_, step));
      v1::CheckpointedRequest checkpoint;
      checkpoint.set_run_id(job_.run_id);
      checkpoint.set_learner_epoch(job_.epoch);
      checkpoint.set_learner_secret(job_.secret);
      checkpoint.set_step(step);
      checkpoint.set_digest(Sha256Of("checkpoint"));
      BUTTRESS_RETURN_IF_ERROR(client.Checkpointed(checkpoint));
      steps_ = step;
    }
    return OkStatus();
  }

  Result<bool> WaitForPlan(CoordinatorClient& client, std::uint64_t step) {
    v1::PlanBatchRequest request;
    request.set_run_id(job_.run_id);
    request.set_learner_epoch(job_.epoch);
    request.set_learner_secret(job_.secret);
    request.set_step(step);
    request.set_wait_ms(500);
    while (!stopping_) {
      BUTTRESS_ASSIGN_OR_RETURN(const v1::PlanBatchResponse response, client.PlanBatch(request));
      if (response.has_plan()) return true;
      if (response.run_state() != v1::RUN_STATE_RUNNING) return false;
    }
    return false;
  }

  void Probe() {
    const auto stub = Connect(address_);
    v1::ExchangeRequest request;
    request.set_run_id(Register(*stub, config_, "probe"));
    request.set_worker_id("probe");
    request.set_incarnation(1);
    while (!stopping_) {
      grpc::ClientContext call;
      v1::ExchangeResponse response;
      const double begin = MonotonicSeconds();
      if (!stub->Exchange(&call, request, &response).ok()) return;
      milliseconds_.push_back(1000 * (MonotonicSeconds() - begin));
      std::this_thread::sleep_for(kProbeEvery);
    }
  }

  const RunConfig& config_;
  const std::string address_;
  const Held held_;
  const LearnerJob job_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> steps_ = 0;
  std::vector<std::unique_ptr<ParkedPoll>> polls_;
  std::vector<double> milliseconds_;  // of the prober
  std::thread learner_;
  std::thread prober_;
};

}  // namespace buttress
