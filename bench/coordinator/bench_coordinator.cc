// Simulated workers for bench/coordinator/run.py: leases all groups of a run, makes their
// completions, and then submits them, each worker one group after another. Prints the accepted
// groups, the seconds, and the 50th and 99th percentile of a submission in milliseconds; with
// --live also those of an Exchange, and the steps that a learner took meanwhile.
//
// --past-groups N writes the ledger of a run with N settled groups instead, and --first-lease waits
// until the coordinator has given a lease.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <vector>

#include "bench/coordinator/live_run.h"
#include "bench/coordinator/past_run.h"
#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
#include "lib/config/load.h"
#include "lib/experience/group.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/rpc/grpc_status.h"

namespace buttress {
namespace {

constexpr std::int32_t kVocabulary = 1000;

struct Flags {
  std::int64_t workers = 1;
  std::int64_t groups = 1;
  std::int64_t tokens = 128;
  std::int64_t past_groups = 0;
  bool first_lease = false;
  bool live = false;
};

// Submits groups, each after the answer to the one before, from Begin on.
class Submissions final {
 public:
  Submissions(v1::Coordinator::Stub& stub, const std::vector<v1::SubmitGroupsRequest>& groups)
      : stub_(stub), groups_(groups) {}

  // Called once.
  void Begin() { SubmitNext(); }

  // Waits for the end of the last call.
  Status Wait() { return done_.get_future().get(); }

  const std::vector<double>& milliseconds() const { return milliseconds_; }

  // Thread-safe.
  std::size_t answered() const { return answered_; }

 private:
  // Deletes itself at its end.
  class Call final : public grpc::ClientWriteReactor<v1::SubmitGroupsRequest> {
   public:
    explicit Call(Submissions& all) : all_(all) {
      context_.set_deadline(std::chrono::system_clock::now() + kGroupTime);
      context_.set_initial_metadata_corked(true);
      all.stub_.async()->SubmitGroups(&context_, &response_, this);
      StartWriteLast(&all.groups_[all.milliseconds_.size()], grpc::WriteOptions());
      StartCall();
    }

    void OnDone(const grpc::Status& status) override {
      Submissions& all = all_;
      const Status ended = FromGrpc(status);
      const bool accepted = ended.ok() && response_.result() == v1::SUBMIT_RESULT_ACCEPTED;
      const std::string response = response_.ShortDebugString();
      delete this;
      accepted ? all.NoteAccepted()
               : all.done_.set_value(ended.ok() ? Internal("a group was not accepted: " + response)
                                                : ended);
    }

   private:
    Submissions& all_;
    grpc::ClientContext context_;
    v1::SubmitGroupsResponse response_;
  };

  void SubmitNext() {
    begin_ = MonotonicSeconds();
    new Call(*this);
  }

  void NoteAccepted() {
    milliseconds_.push_back(1000 * (MonotonicSeconds() - begin_));
    answered_ = milliseconds_.size();
    milliseconds_.size() == groups_.size() ? done_.set_value(OkStatus()) : SubmitNext();
  }

  v1::Coordinator::Stub& stub_;
  const std::vector<v1::SubmitGroupsRequest>& groups_;
  std::promise<Status> done_;
  std::atomic<std::size_t> answered_ = 0;
  double begin_ = 0;
  std::vector<double> milliseconds_;  // of the groups answered so far
};

class SimulatedWorker {
 public:
  explicit SimulatedWorker(std::int64_t index)
      : id_("w" + std::to_string(index)), incarnation_(static_cast<std::uint64_t>(index) + 1) {}

  Status Join(CoordinatorClient& client, const std::string& config_sha256) {
    v1::RegisterWorkerRequest self;
    self.set_worker_id(id_);
    self.set_incarnation(incarnation_);
    self.set_config_sha256(config_sha256);
    self.set_worker_secret(kWorkerSecret);
    BUTTRESS_ASSIGN_OR_RETURN(const auto joined, client.RegisterWorker(self));
    run_id_ = joined.run_id();
    return OkStatus();
  }

  // Leases `count` groups and makes their completions.
  Status Lease(CoordinatorClient& client, std::int64_t count, const Flags& flags) {
    v1::ExchangeRequest request;
    request.set_run_id(run_id_);
    request.set_worker_id(id_);
    request.set_incarnation(incarnation_);
    request.set_worker_secret(kWorkerSecret);
    request.set_capacity(static_cast<std::uint32_t>(count));
    request.set_wait_ms(10000);
    for (const v1::SubmitGroupsRequest& group : groups_)
      *request.add_held() = group.header().lease();
    BUTTRESS_ASSIGN_OR_RETURN(const v1::ExchangeResponse response, client.Exchange(request));
    if (response.leases_size() != count) {
      return Internal(id_ + " got " + std::to_string(response.leases_size()) + " of " +
                      std::to_string(count) + " leases");
    }
    for (const v1::Lease& lease : response.leases())
      groups_.push_back(Submission(lease, flags.tokens));
    return OkStatus();
  }

  // Opens a connection of this worker alone.
  void Open(const std::string& address) {
    stub_ = Connect(address);
    submissions_ = std::make_unique<Submissions>(*stub_, groups_);
  }

  // Begins to submit all groups.
  void Submit() { submissions_->Begin(); }

  Status Wait() { return submissions_->Wait().Annotate(id_); }

  const std::vector<double>& milliseconds() const { return submissions_->milliseconds(); }

  // Returns the leases of the groups that are not submitted. Thread-safe.
  std::vector<v1::LeaseRef> Held() const {
    std::vector<v1::LeaseRef> held;
    for (std::size_t i = submissions_->answered(); i < groups_.size(); ++i)
      held.push_back(groups_[i].header().lease());
    return held;
  }

  std::uint64_t payload_bytes() const { return groups_.front().header().total_bytes(); }

 private:
  v1::SubmitGroupsRequest Submission(const v1::Lease& lease, std::int64_t tokens) const {
    EncodedGroup group = EncodedGroup::Of(Sample(lease, tokens));
    v1::SubmitGroupsRequest message;
    v1::SubmitHeader& header = *message.mutable_header();
    header.set_run_id(run_id_);
    header.set_worker_id(id_);
    header.set_incarnation(incarnation_);
    header.set_worker_secret(kWorkerSecret);
    *header.mutable_lease() = lease.ref();
    header.set_content_sha256(group.sha256);
    header.set_total_bytes(group.bytes.size());
    message.set_data(std::move(group.bytes));
    return message;
  }

  v1::Group Sample(const v1::Lease& lease, std::int64_t tokens) const {
    RandomStream random({lease.ref().group_id(), 0});
    v1::Group group;
    v1::GroupHead& head = *group.mutable_head();
    head.set_group_id(lease.ref().group_id());
    head.set_prompt_id(lease.prompt_id());
    head.set_source(lease.source());
    head.set_worker_id(id_);
    head.set_prompt_tokens(lease.prompt_token_ids_size());
    *head.add_versions() = lease.min_version();
    group.mutable_prompt_token_ids()->Add(lease.prompt_token_ids().begin(),
                                          lease.prompt_token_ids().end());
    *group.mutable_sampling() = lease.sampling();
    for (std::uint32_t i = 0; i < lease.completions(); ++i) {
      std::vector<std::int32_t> token_ids;
      std::vector<float> logprobs;
      for (std::int64_t t = 0; t < tokens; ++t) {
        token_ids.push_back(static_cast<std::int32_t>(random.Below(kVocabulary)));
        logprobs.push_back(static_cast<float>(-5 * random.Uniform()));
      }
      const bool correct = random.Uniform() < 0.5;
      AppendTokens(group, token_ids, logprobs, FinishReason::kLength);
      AppendReward(head, correct ? Outcome::kCorrect : Outcome::kWrong, correct ? 1 : 0,
                   correct ? 1 : 0);
      group.add_extracted_answers("42");
    }
    return group;
  }

  const std::string id_;
  const std::uint64_t incarnation_;
  std::string run_id_;
  std::vector<v1::SubmitGroupsRequest> groups_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::unique_ptr<Submissions> submissions_;
};

// Registers a learner and announces weights of version 0, so that groups can be leased.
Result<LearnerJob> StartLearner(CoordinatorClient& client, const std::string& config_sha256) {
  v1::RegisterLearnerRequest learner;
  learner.set_config_sha256(config_sha256);
  learner.set_world_size(1);
  BUTTRESS_ASSIGN_OR_RETURN(const v1::RegisterLearnerResponse start,
                            client.RegisterLearner(learner));
  LearnerJob job{start.run_id(), start.learner_epoch(), start.learner_secret()};
  BUTTRESS_RETURN_IF_ERROR(AnnounceStep(client, job, 0));
  return job;
}

// Asks until the coordinator has given a lease.
Status WaitForLease(const RunConfig& config) {
  CoordinatorClient client(CoordinatorClientOptionsFrom(config.local));
  SimulatedWorker worker(0);
  BUTTRESS_RETURN_IF_ERROR(worker.Join(client, RunConfigHash(config)));
  return worker.Lease(client, 1, {.tokens = 1});
}

// Leases in turns, so that neighbours in admission order are on different workers, as in a run.
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

double Quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

Result<std::string> AddressOf(const RunConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string address,
                            ReadFile(JoinPath(config.local.out, "coordinator.address")));
  address.resize(std::min(address.find('\n'), address.size()));
  return address;
}

Status Run(const RunConfig& config, const Flags& flags) {
  const std::string config_sha256 = RunConfigHash(config);
  CoordinatorClient client(CoordinatorClientOptionsFrom(config.local));
  BUTTRESS_ASSIGN_OR_RETURN(const LearnerJob learner, StartLearner(client, config_sha256));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string address, AddressOf(config));
  std::vector<std::unique_ptr<SimulatedWorker>> workers;
  for (std::int64_t i = 0; i < flags.workers; ++i) {
    workers.push_back(std::make_unique<SimulatedWorker>(i));
    BUTTRESS_RETURN_IF_ERROR(workers.back()->Join(client, config_sha256));
  }
  std::unique_ptr<LostWorkers> lost;
  if (flags.live) lost = std::make_unique<LostWorkers>(config, address);
  BUTTRESS_RETURN_IF_ERROR(LeaseAll(client, workers, flags.groups, flags));
  for (const auto& worker : workers) worker->Open(address);
  std::unique_ptr<LiveRun> live;
  if (flags.live) {
    const auto held = [&workers](std::int64_t i) {
      return workers[static_cast<std::size_t>(i)]->Held();
    };
    live = std::make_unique<LiveRun>(config, address, flags.workers, held, learner);
  }
  std::fprintf(stderr, "leases are granted, %zu workers submit\n", workers.size());

  const double begin = MonotonicSeconds();
  if (live) live->Measure();
  for (const auto& worker : workers) worker->Submit();
  for (const auto& worker : workers) BUTTRESS_RETURN_IF_ERROR(worker->Wait());
  const double seconds = MonotonicSeconds() - begin;
  const std::uint64_t steps = live ? live->steps() : 0;
  std::vector<double> exchanges;
  if (live) exchanges = live->Stop();

  std::vector<double> milliseconds;
  for (const auto& worker : workers) {
    milliseconds.insert(milliseconds.end(), worker->milliseconds().begin(),
                        worker->milliseconds().end());
  }
  std::printf(
      "{\"groups\": %zu, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, "
      "\"exchange_p50_ms\": %.4f, \"exchange_p99_ms\": %.4f, \"steps\": %lu, "
      "\"payload_bytes\": %lu}\n",
      milliseconds.size(), seconds, Quantile(milliseconds, 0.5), Quantile(milliseconds, 0.99),
      Quantile(exchanges, 0.5), Quantile(exchanges, 0.99), static_cast<unsigned long>(steps),
      static_cast<unsigned long>(workers.front()->payload_bytes()));
  return OkStatus();
}

Status RunMode(const RunConfig& config, const Flags& flags) {
  if (flags.past_groups > 0) return WritePastRun(config, flags.past_groups);
  return flags.first_lease ? WaitForLease(config) : Run(config, flags);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  buttress::ConfigFlags config_flags;
  CLI::App app("Simulated workers for a coordinator");
  config_flags.AddTo(app);
  app.add_option("--workers", flags.workers, "simulated workers; divides --groups");
  app.add_option("--groups", flags.groups, "groups that they submit");
  app.add_option("--tokens", flags.tokens, "tokens of a completion");
  app.add_flag("--live", flags.live,
               "a learner takes plans, and every worker keeps an Exchange open");
  app.add_option("--past-groups", flags.past_groups, "write the ledger of a run with these groups");
  app.add_flag("--first-lease", flags.first_lease, "only wait for a lease");
  CLI11_PARSE(app, argc, argv);
  bool done = false;
  const auto config = buttress::LoadByFlags(config_flags, &done);
  buttress::Status status = config.status();
  if (config.ok() && config_flags.check) {
    status = buttress::InvalidArgument(
        "--check has nothing to check here; `coordinator --check` checks the run");
  } else if (config.ok() && !done) {
    status = buttress::RunMode(*config, flags);
  }
  if (!status.ok()) std::fprintf(stderr, "bench_coordinator: %s\n", status.message().c_str());
  std::fflush(stdout);
  std::_Exit(buttress::ExitCode(status));  // without waiting until a thousand connections close
}
