// Simulated workers for bench/coordinator/run.py: takes leases for all groups of a run, makes their
// completions, then submits them, one group of each worker at a time, and prints groups accepted,
// seconds, and the 50th and 99th percentile of a submission in milliseconds.
#include <sys/epoll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/coordinator/http2_call.h"
#include "buttress/v1/coordinator.pb.h"
#include "lib/base/clock.h"
#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/base/random.h"
#include "lib/config/load.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/manifest_wire.h"

namespace buttress {
namespace {

constexpr std::int32_t kVocabulary = 1000;
constexpr int kPatienceMs = 60000;

struct Flags {
  std::int64_t workers = 1;
  std::int64_t tokens = 128;
};

// One worker, which submits the groups it holds, one after another, on a connection of its own.
class SimulatedWorker {
 public:
  explicit SimulatedWorker(std::int64_t index)
      : id_("w" + std::to_string(index)), incarnation_(static_cast<std::uint64_t>(index) + 1) {}

  Status Join(CoordinatorClient& client, const std::string& config_sha256) {
    v1::RegisterWorkerRequest self;
    self.set_worker_id(id_);
    self.set_incarnation(incarnation_);
    self.set_config_sha256(config_sha256);
    return client.RegisterWorker(self).status();
  }

  // Leases `count` groups and makes their completions.
  Status Lease(CoordinatorClient& client, std::int64_t count, const Flags& flags) {
    v1::ExchangeRequest request;
    request.set_worker_id(id_);
    request.set_incarnation(incarnation_);
    request.set_capacity(static_cast<std::uint32_t>(count));
    request.mutable_held()->Add(keys_.begin(), keys_.end());
    BUTTRESS_ASSIGN_OR_RETURN(const v1::ExchangeResponse response, client.Exchange(request));
    if (response.leases_size() != count) {
      return Internal(id_ + " got " + std::to_string(response.leases_size()) + " of " +
                      std::to_string(count) + " leases");
    }
    for (const v1::Lease& lease : response.leases()) {
      keys_.push_back(lease.ref());
      messages_.push_back(Http2Call::Frames(Message(lease, flags.tokens)));
    }
    return OkStatus();
  }

  Status Connect(const std::string& address) {
    BUTTRESS_ASSIGN_OR_RETURN(call_,
                              Http2Call::Open(address, "/buttress.v1.Coordinator/SubmitGroups"));
    return OkStatus();
  }

  int descriptor() const { return call_->descriptor(); }

  // Submits the next group.
  Status Submit() {
    begin_ = MonotonicSeconds();
    return call_->Send(messages_[next_]);
  }

  // Takes what has come, and submits the next group after an answer. True when all are answered.
  Result<bool> Read() {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::string> answers, call_->Read());
    for (const std::string& answer : answers) {
      milliseconds_.push_back(1000 * (MonotonicSeconds() - begin_));
      v1::SubmitGroupsResponse response;
      const bool parsed = response.ParseFromString(answer);
      if (!parsed || response.result() != v1::SUBMIT_RESULT_ACCEPTED)
        return Internal(id_ + ": " + response.ShortDebugString());
      if (++next_ == messages_.size()) return true;
      BUTTRESS_RETURN_IF_ERROR(Submit());
    }
    return false;
  }

  const std::vector<double>& milliseconds() const { return milliseconds_; }

  std::size_t payload_bytes() const { return payload_bytes_; }

 private:
  std::string Message(const v1::Lease& lease, std::int64_t tokens) {
    const EncodedGroup group = EncodedGroup::Of(Sampled(lease, tokens));
    v1::SubmitGroupsRequest message;
    v1::SubmitHeader& header = *message.mutable_header();
    header.set_worker_id(id_);
    header.set_incarnation(incarnation_);
    *header.mutable_lease() = lease.ref();
    header.set_content_sha256(group.sha256);
    header.set_total_bytes(group.bytes.size());
    message.set_data(group.bytes);
    payload_bytes_ = group.bytes.size();
    return message.SerializeAsString();
  }

  Group Sampled(const v1::Lease& lease, std::int64_t tokens) const {
    RandomStream random({lease.ref().group_id(), 0});
    Group group;
    group.group_id = lease.ref().group_id();
    group.prompt_id = lease.prompt_id();
    group.source = lease.source();
    group.worker_id = id_;
    for (const std::uint32_t token : lease.prompt_token_ids())
      group.prompt_token_ids.push_back(static_cast<std::int32_t>(token));
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(lease.completions()); ++i) {
      Completion completion;
      completion.index = i;
      for (std::int64_t t = 0; t < tokens; ++t) {
        completion.token_ids.push_back(static_cast<std::int32_t>(random.Below(kVocabulary)));
        completion.logprobs.push_back(static_cast<float>(-5 * random.Uniform()));
      }
      completion.sampling.max_tokens = static_cast<std::int32_t>(tokens);
      completion.segments = {{0,
                              {lease.min_version().learner_epoch(), lease.min_version().step(),
                               lease.min_version().digest()}}};
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
  std::unique_ptr<Http2Call> call_;
  std::vector<v1::LeaseRef> keys_;
  std::vector<std::vector<std::string>> messages_;  // frames of each
  std::size_t payload_bytes_ = 0;
  std::size_t next_ = 0;
  double begin_ = 0;
  std::vector<double> milliseconds_;
};

// A learner with weights of version 0, so that groups may be leased.
Status Announce(CoordinatorClient& client, const std::string& config_sha256) {
  v1::RegisterLearnerRequest learner;
  learner.set_config_sha256(config_sha256);
  learner.set_world_size(1);
  BUTTRESS_ASSIGN_OR_RETURN(const v1::RegisterLearnerResponse start,
                            client.RegisterLearner(learner));
  WeightManifest manifest;
  manifest.version = {start.learner_epoch(), 0, ""};
  manifest.files = {{"model.safetensors", 1, Sha256Of("weights")}};
  manifest.version.digest = ManifestDigest(manifest);
  v1::AnnounceWeightsRequest announcement;
  announcement.set_learner_epoch(start.learner_epoch());
  *announcement.mutable_manifest() = ManifestToProto(manifest);
  return client.AnnounceWeights(announcement);
}

// As in a run, neighbours in the order of admission are on different workers.
Status LeaseAll(CoordinatorClient& client, std::vector<std::unique_ptr<SimulatedWorker>>& workers,
                std::int64_t groups, const Flags& flags) {
  constexpr std::int64_t kRounds = 32;
  const std::int64_t share = groups / flags.workers;
  for (std::int64_t begin = 0; begin < share;) {
    const std::int64_t count = std::min(share - begin, (share + kRounds - 1) / kRounds);
    for (const auto& worker : workers)
      BUTTRESS_RETURN_IF_ERROR(worker->Lease(client, count, flags));
    begin += count;
  }
  return OkStatus();
}

// One thread for all workers, as redis-benchmark has it.
Status SubmitAll(std::vector<std::unique_ptr<SimulatedWorker>>& workers) {
  const int events = epoll_create1(0);
  for (const auto& worker : workers) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = worker.get()}};
    if (epoll_ctl(events, EPOLL_CTL_ADD, worker->descriptor(), &event) != 0)
      return Unavailable("epoll_ctl");
    BUTTRESS_RETURN_IF_ERROR(worker->Submit());
  }
  std::array<epoll_event, 256> ready{};
  for (std::size_t ended = 0; ended < workers.size();) {
    const int count = epoll_wait(events, ready.data(), static_cast<int>(ready.size()), kPatienceMs);
    if (count <= 0) return DeadlineExceeded("the submissions did not end");
    for (int i = 0; i < count; ++i) {
      BUTTRESS_ASSIGN_OR_RETURN(
          const bool done,
          static_cast<SimulatedWorker*>(ready[static_cast<std::size_t>(i)].data.ptr)->Read());
      ended += done ? 1 : 0;
    }
  }
  close(events);
  return OkStatus();
}

Status Run(const RunConfig& config, const Flags& flags) {
  const std::string config_sha256 = RunConfigHash(config);
  CoordinatorClient client(CoordinatorClientOptionsFrom(config.local));
  BUTTRESS_RETURN_IF_ERROR(Announce(client, config_sha256));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string address,
                            ReadFile(JoinPath(config.local.out, "coordinator.address")));
  std::vector<std::unique_ptr<SimulatedWorker>> workers;
  for (std::int64_t i = 0; i < flags.workers; ++i) {
    workers.push_back(std::make_unique<SimulatedWorker>(i));
    BUTTRESS_RETURN_IF_ERROR(workers.back()->Join(client, config_sha256));
  }
  BUTTRESS_RETURN_IF_ERROR(LeaseAll(client, workers, config.run.batch.prompts, flags));
  for (const auto& worker : workers)
    BUTTRESS_RETURN_IF_ERROR(worker->Connect(address.substr(0, address.find('\n'))));
  std::fprintf(stderr, "leases are taken, %zu workers submit\n", workers.size());
  const double begin = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(SubmitAll(workers));
  const double seconds = MonotonicSeconds() - begin;
  std::vector<double> milliseconds;
  for (const auto& worker : workers) {
    milliseconds.insert(milliseconds.end(), worker->milliseconds().begin(),
                        worker->milliseconds().end());
  }
  std::ranges::sort(milliseconds);
  const auto quantile = [&](double q) {
    return milliseconds[static_cast<std::size_t>(q * static_cast<double>(milliseconds.size() - 1))];
  };
  std::printf(
      "{\"groups\": %zu, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"payload_bytes\": "
      "%zu}\n",
      milliseconds.size(), seconds, quantile(0.5), quantile(0.99),
      workers.front()->payload_bytes());
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
