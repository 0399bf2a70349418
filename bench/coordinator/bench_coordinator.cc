// Simulated workers for bench/coordinator/run.py: takes leases for all groups of a run, makes their completions, then submits them, one
// group of each worker at a time, and prints groups accepted, seconds, and the 50th and 99th percentile of a submission in milliseconds.
#include <grpcpp/client_context.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/clock.h"
#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/base/random.h"
#include "lib/base/sync.h"
#include "lib/config/load.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/rpc/grpc_status.h"
#include "lib/weights/manifest_wire.h"

namespace buttress {
namespace {

constexpr std::int32_t kVocabulary = 1000;
constexpr std::chrono::minutes kPatience(2);

struct Flags {
  std::int64_t workers = 1;
  std::int64_t tokens = 128;
};

// One worker, which submits the groups it holds, one after another, on a connection of its own.
class SimulatedWorker final : private grpc::ClientBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse> {
 public:
  SimulatedWorker(const std::string& address, std::int64_t index)
      : id_("w" + std::to_string(index)),
        incarnation_(static_cast<std::uint64_t>(index) + 1),
        channel_(MakeChannel(address)),
        stub_(v1::Coordinator::NewStub(channel_)) {}

  // Everything that needs no clock: connection, registration, leases, completions.
  Status Prepare(CoordinatorClient& client, const std::string& config_sha256, std::int64_t groups, const Flags& flags) {
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() + kPatience)) return Unavailable(id_ + " cannot connect");
    v1::RegisterWorkerRequest self;
    self.set_worker_id(id_);
    self.set_incarnation(incarnation_);
    self.set_config_sha256(config_sha256);
    BUTTRESS_RETURN_IF_ERROR(client.RegisterWorker(self).status());
    v1::ExchangeRequest request;
    request.set_worker_id(id_);
    request.set_incarnation(incarnation_);
    request.set_capacity(static_cast<std::uint32_t>(groups));
    BUTTRESS_ASSIGN_OR_RETURN(const v1::ExchangeResponse response, client.Exchange(request));
    if (response.leases_size() != groups) {
      return Internal(id_ + " got " + std::to_string(response.leases_size()) + " of " + std::to_string(groups) + " leases");
    }
    for (const v1::Lease& lease : response.leases()) {
      keys_.push_back(lease.ref());
      groups_.push_back(EncodedGroup::Of(Sampled(lease, flags.tokens)));
    }
    return OkStatus();
  }

  // Submits the groups; `done` hears when none is left or one was refused.
  void SubmitAll(std::function<void(Status)> done) {
    done_ = std::move(done);
    stub_->async()->SubmitGroups(&context_, this);
    SubmitNext();
    StartCall();
  }

  const std::vector<double>& milliseconds() const { return milliseconds_; }

  std::size_t payload_bytes() const { return groups_.front().bytes.size(); }

 private:
  void SubmitNext() {
    const EncodedGroup& group = groups_[next_];
    v1::SubmitHeader& header = *message_.mutable_header();
    header.set_worker_id(id_);
    header.set_incarnation(incarnation_);
    *header.mutable_lease() = keys_[next_];
    header.set_content_sha256(group.sha256);
    header.set_total_bytes(group.bytes.size());
    message_.set_data(group.bytes);
    begin_ = MonotonicSeconds();
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&response_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    milliseconds_.push_back(1000 * (MonotonicSeconds() - begin_));
    if (response_.result() != v1::SUBMIT_RESULT_ACCEPTED) {
      failed_ = Internal("not accepted: " + v1::SubmitResult_Name(response_.result()));
    }
    if (!failed_.ok() || ++next_ == groups_.size()) return StartWritesDone();
    SubmitNext();
  }

  void OnDone(const grpc::Status& status) override {
    if (failed_.ok()) failed_ = FromGrpc(status);
    done_(failed_.Annotate(id_));
  }

  Group Sampled(const v1::Lease& lease, std::int64_t tokens) const {
    RandomStream random({lease.ref().group_id(), 0});
    Group group;
    group.group_id = lease.ref().group_id();
    group.prompt_id = lease.prompt_id();
    group.source = lease.source();
    group.worker_id = id_;
    for (const std::uint32_t token : lease.prompt_token_ids()) group.prompt_token_ids.push_back(static_cast<std::int32_t>(token));
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(lease.completions()); ++i) {
      Completion completion;
      completion.index = i;
      for (std::int64_t t = 0; t < tokens; ++t) {
        completion.token_ids.push_back(static_cast<std::int32_t>(random.Below(kVocabulary)));
        completion.logprobs.push_back(static_cast<float>(-5 * random.Uniform()));
      }
      completion.sampling.max_tokens = static_cast<std::int32_t>(tokens);
      completion.segments = {{0, {lease.min_version().learner_epoch(), lease.min_version().step(), lease.min_version().digest()}}};
      completion.finish_reason = FinishReason::kLength;
      completion.outcome = random.Uniform() < 0.5 ? Outcome::kCorrect : Outcome::kWrong;
      completion.raw_reward = completion.reward = completion.outcome == Outcome::kCorrect ? 1 : 0;
      completion.extracted_answer = "42";
      group.completions.push_back(std::move(completion));
    }
    return group;
  }

  const std::string id_;
  const std::uint64_t incarnation_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::vector<v1::LeaseRef> keys_;
  std::vector<EncodedGroup> groups_;
  std::size_t next_ = 0;
  double begin_ = 0;
  std::vector<double> milliseconds_;
  std::function<void(Status)> done_;
  Status failed_;
  grpc::ClientContext context_;
  v1::SubmitGroupsRequest message_;
  v1::SubmitGroupsResponse response_;
};

// A learner with weights of version 0, so that groups may be leased.
Status Announce(CoordinatorClient& client, const std::string& config_sha256) {
  v1::RegisterLearnerRequest learner;
  learner.set_config_sha256(config_sha256);
  learner.set_world_size(1);
  BUTTRESS_ASSIGN_OR_RETURN(const v1::RegisterLearnerResponse start, client.RegisterLearner(learner));
  WeightManifest manifest;
  manifest.version = {start.learner_epoch(), 0, ""};
  manifest.files = {{"model.safetensors", 1, Sha256Of("weights")}};
  manifest.version.digest = ManifestDigest(manifest);
  v1::AnnounceWeightsRequest announcement;
  announcement.set_learner_epoch(start.learner_epoch());
  *announcement.mutable_manifest() = ManifestToProto(manifest);
  return client.AnnounceWeights(announcement);
}

Status SubmitAll(std::vector<std::unique_ptr<SimulatedWorker>>& workers) {
  Mutex mutex;
  CondVar changed;
  std::size_t ended = 0;
  Status failed;
  for (const auto& worker : workers) {
    worker->SubmitAll([&](const Status& status) {
      MutexLock lock(mutex);
      ++ended;
      if (failed.ok()) failed = status;
      changed.NotifyAll();
    });
  }
  MutexLock lock(mutex);
  if (!changed.WaitFor(mutex, kPatience, [&] { return ended == workers.size(); })) {
    return DeadlineExceeded("the submissions did not end");
  }
  return failed;
}

Status Run(const RunConfig& config, const Flags& flags) {
  const std::string config_sha256 = RunConfigHash(config);
  CoordinatorClient client(CoordinatorClientOptionsFrom(config.local));
  BUTTRESS_RETURN_IF_ERROR(Announce(client, config_sha256));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string address, ReadFile(JoinPath(config.local.out, "coordinator.address")));
  std::vector<std::unique_ptr<SimulatedWorker>> workers;
  for (std::int64_t i = 0; i < flags.workers; ++i) {
    workers.push_back(std::make_unique<SimulatedWorker>(address.substr(0, address.find('\n')), i));
    BUTTRESS_RETURN_IF_ERROR(workers.back()->Prepare(client, config_sha256, config.run.batch.prompts / flags.workers, flags));
  }
  const double begin = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(SubmitAll(workers));
  const double seconds = MonotonicSeconds() - begin;
  std::vector<double> milliseconds;
  for (const auto& worker : workers) {
    milliseconds.insert(milliseconds.end(), worker->milliseconds().begin(), worker->milliseconds().end());
  }
  std::ranges::sort(milliseconds);
  const auto quantile = [&](double q) { return milliseconds[static_cast<std::size_t>(q * static_cast<double>(milliseconds.size() - 1))]; };
  std::printf("{\"groups\": %zu, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"payload_bytes\": %zu}\n", milliseconds.size(),
              seconds, quantile(0.5), quantile(0.99), workers.front()->payload_bytes());
  return OkStatus();
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  buttress::ConfigFlags config_flags;
  CLI::App app("Simulated workers for a coordinator");
  config_flags.AddTo(app);
  app.add_option("--workers", flags.workers, "simulated workers; divides run.batch.prompts");
  app.add_option("--tokens", flags.tokens, "tokens of a completion");
  CLI11_PARSE(app, argc, argv);
  bool done = false;
  const auto config = buttress::LoadByFlags(config_flags, &done);
  const buttress::Status status = config.ok() ? buttress::Run(*config, flags) : config.status();
  if (!status.ok()) std::fprintf(stderr, "bench_coordinator: %s\n", status.message().c_str());
  std::fflush(stdout);
  std::_Exit(buttress::ExitCode(status));  // not waiting for a thousand connections to close
}
