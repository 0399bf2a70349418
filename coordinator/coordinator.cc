#include "coordinator/coordinator.h"

#include <fmt/core.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>

#include "coordinator/standby/copy_mark.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"
#include "lib/rpc/rpc_server.h"

namespace buttress {
namespace {

constexpr const char* kServiceName = "buttress.v1.Coordinator";
constexpr std::chrono::seconds kShutdownTime(2);
constexpr std::chrono::seconds kStatusTime(2);
// A worker renews its leases with every Exchange, so an Exchange is held for a third of a lease
// time at most.
constexpr std::int64_t kHoldsPerLease = 3;

// Returns 32 random hex digits.
std::string RandomId() { return ToHex(MakeSecret()).substr(0, 32); }

SchedulerOptions SchedulerOptionsFrom(const RunSettings& run, const std::string& config_sha256,
                                      const PromptSet& prompts) {
  SchedulerOptions options;
  options.run_name = run.name;
  options.config_sha256 = config_sha256;
  options.new_run_id = RandomId();
  options.start_id = RandomId();
  options.sources = PromptMix::NewSources(prompts);
  options.steps = static_cast<std::uint64_t>(run.steps);
  options.prompts = run.batch.prompts;
  options.max_age = run.batch.max_age;
  options.window = run.batch.window;
  options.lease_ms = run.lease_ms;
  options.lease_limit_ms = run.lease_limit_ms;
  options.max_attempts = run.max_attempts;
  options.deterministic = run.deterministic;
  options.old_tokens = run.async.old_tokens;
  options.resample = run.batch.zero_variance == ZeroVariancePolicy::kResample;
  options.replace_cap = run.batch.resample.cap * run.batch.prompts;
  options.replace_budget = run.batch.resample.budget;
  options.control = run.control;
  options.selection = run.data.selection;
  options.history_decay = run.algorithm.avspo.prior.decay;
  return options;
}

RunTerms TermsFrom(const RunConfig& config, const std::string& start_id, SamplingParams sampling) {
  const RunSettings& run = config.run;
  RunTerms terms;
  terms.start_id = start_id;
  terms.config_sha256 = RunConfigHash(config);
  terms.seed = run.seed;
  terms.sampling = std::move(sampling);
  for (const auto& [name, source] : run.data.sources) {
    if (source.max_tokens) terms.max_tokens[name] = static_cast<std::int32_t>(*source.max_tokens);
  }
  terms.controls = {run.reward.controls.per_step, run.batch.prompts,
                    run.reward.controls.steps_to_false_alarm};
  terms.check_max_age = [config](std::int64_t max_age) {
    RunConfig ordered = config;
    ordered.run.batch.max_age = max_age;
    return ValidateRunConfig(ordered);
  };
  terms.max_hold_ms = run.lease_ms / kHoldsPerLease;
  return terms;
}

// Says which settings differ from those that the run was started with, where its folder has them;
// the hashes alone say no more than that some do.
Status CheckSettings(const RunRow& run, const std::string& identity, const RunConfig& config) {
  const auto stored = LoadRunConfig(StoredConfigPath(config.local.out), {});
  if (!stored.ok()) return OkStatus();
  const std::vector<SettingChange> changes = ChangesOf(*stored, config);
  if (run.config_sha256 == identity) {
    for (const auto& [key, was, is, allowed] : changes)
      Log(kInfo, "the run continues with another setting",
          {{"key", key}, {"was", was}, {"is", is}});
    return OkStatus();
  }
  if (changes.empty()) return OkStatus();
  return InvalidArgument(
      fmt::format("the run in {} was started with other settings:{}\nput the old values back, or "
                  "give the run another folder (local.out); docs/running.md lists the settings "
                  "that may change",
                  config.local.out, DescribeChanges(changes)));
}

// A question to the loop from within the process. Whoever asks may leave before the answer.
class StatusRequest final : public LoopRequest {
 public:
  StatusRequest() : LoopRequest({.only_reads = true}) {}

  std::future<Result<v1::GetRunStatusResponse>> answer() { return answer_.get_future(); }

  std::optional<Status> Apply(Turn& turn, bool) override {
    FillRunStatus(turn, response_);
    return OkStatus();
  }

  bool cancelled() const override { return false; }

  void Answer(const Status& status) override {
    if (status.ok()) {
      answer_.set_value(std::move(response_));
    } else {
      answer_.set_value(status);
    }
    delete this;
  }

 private:
  v1::GetRunStatusResponse response_;
  std::promise<Result<v1::GetRunStatusResponse>> answer_;
};

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::Start(const RunConfig& config,
                                                        const PromptSet& prompts,
                                                        const GroupLimits& limits,
                                                        SamplingParams sampling, Metrics& metrics,
                                                        const Credentials& credentials) {
  const double begin = MonotonicSeconds();
  std::unique_ptr<Coordinator> coordinator(new Coordinator);
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(config.local.out));
  coordinator->metrics_ = std::make_unique<CoordinatorMetrics>(
      metrics, config, RunConfigHash(config), config.local.out);
  BUTTRESS_RETURN_IF_ERROR(coordinator->OpenLedger(config, prompts, std::move(sampling)));
  coordinator->service_ = std::make_unique<CoordinatorService>(
      *coordinator->loop_, *coordinator->payloads_, *coordinator->metrics_, limits,
      coordinator->mirror_.get(), std::move(coordinator->starts_));
  BUTTRESS_RETURN_IF_ERROR(coordinator->Listen(config.local.coordinator, credentials));
  coordinator->metrics_->recovery_seconds.Set(MonotonicSeconds() - begin);
  coordinator->metrics_->SetReady(true);
  return coordinator;
}

Coordinator::Coordinator() = default;

Coordinator::~Coordinator() { Stop().IgnoreError(); }

Status Coordinator::OpenLedger(const RunConfig& config, const PromptSet& prompts,
                               SamplingParams sampling) {
  const CoordinatorConfig& local = config.local.coordinator;
  if (local.standby != StandbyMode::kOff) {
    mirror_ = std::make_unique<Mirror>(config.local.out, local.standby, local.standby_wait_ms,
                                       metrics_->metrics);
  }
  BUTTRESS_RETURN_IF_ERROR(PrepareToPromote(config.local.out));
  BUTTRESS_ASSIGN_OR_RETURN(ledger_, Ledger::Open(JoinPath(config.local.out, "ledger.db")));
  BUTTRESS_RETURN_IF_ERROR(Promote(config.local.out));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger_->Load());

  const std::string identity = RunIdentityHash(config);
  if (snapshot.run) BUTTRESS_RETURN_IF_ERROR(CheckSettings(*snapshot.run, identity, config));
  LedgerChanges changes;
  const SchedulerOptions options = SchedulerOptionsFrom(config.run, identity, prompts);
  auto restored = Scheduler::Restore(options, snapshot, RealClock().MonotonicMs(), changes);
  // Restarting the process does not help when the ledger belongs to another run.
  if (restored.status().code() == StatusCode::kFailedPrecondition) {
    return InvalidArgument(restored.status().message());
  }
  BUTTRESS_ASSIGN_OR_RETURN(Scheduler scheduler, std::move(restored));
  BUTTRESS_ASSIGN_OR_RETURN(const PayloadEnd end_of_all, ledger_->EndOfAllPayloads());
  BUTTRESS_ASSIGN_OR_RETURN(
      payloads_, PayloadStore::Open(
                     JoinPath(config.local.out, "payloads"), ledger_->payload_end(), end_of_all,
                     static_cast<std::uint64_t>(config.local.coordinator.payload_segment_bytes)));
  PromptMix mix(prompts, config.run);
  BUTTRESS_RETURN_IF_ERROR(mix.Resume(scheduler.sources()));
  BUTTRESS_RETURN_IF_ERROR(
      WriteFileAtomic(StoredConfigPath(config.local.out), PrintRunConfig(config)));
  BUTTRESS_RETURN_IF_ERROR(ledger_->Write(changes));
  if (mirror_ != nullptr) mirror_->Start(scheduler.run().run_id);

  starts_.run_id = scheduler.run().run_id;
  starts_.own = options.start_id;
  starts_.all = {options.start_id};
  for (const StartRow& start : snapshot.starts) starts_.all.insert(start.start_id);
  const CollapseCounts last_plan =
      snapshot.plans.empty() ? CollapseCounts() : snapshot.plans.rbegin()->second.collapse.step;
  loop_ = std::make_unique<CoordinatorLoop>(LoopCore::Parts{
      TermsFrom(config, options.start_id, std::move(sampling)), std::move(scheduler),
      std::move(mix), *ledger_, *payloads_, *metrics_, RealClock(), last_plan,
      config.local.coordinator.keep_payloads,
      RunDisk{config.local.out, [folder = config.local.out] { return FreeBytes(folder); }},
      config.local.out, static_cast<std::uint64_t>(local.archive_steps), mirror_.get()});
  return OkStatus();
}

Status Coordinator::Listen(const CoordinatorConfig& config, const Credentials& credentials) {
  grpc::EnableDefaultHealthCheckService(true);
  auto server = RpcServer::Start(config.listen, credentials, {service_.get()});
  if (!server.ok()) return server.status().Annotate("local.coordinator.listen");
  server_ = *std::move(server);
  server_->health()->SetServingStatus(kServiceName, true);
  address_ = config.advertise.empty() ? server_->address() : config.advertise;
  return OkStatus();
}

Result<v1::GetRunStatusResponse> Coordinator::GetRunStatus() {
  auto request = std::make_unique<StatusRequest>();
  auto answer = request->answer();
  if (!loop_->Post(request.get())) return Unavailable("the coordinator has too many calls waiting");
  request.release();  // the loop answers it, and it deletes itself
  if (answer.wait_for(kStatusTime) != std::future_status::ready)
    return DeadlineExceeded("the coordinator did not answer in two seconds");
  return answer.get();
}

Status Coordinator::Stop() {
  if (!loop_) return OkStatus();
  metrics_->SetReady(false);
  if (server_) server_->health()->SetServingStatus(false);
  loop_->Drain();
  if (server_) server_->Shutdown(kShutdownTime);
  if (mirror_ != nullptr) mirror_->Stop();
  const Status status = loop_->Stop();
  server_.reset();
  service_.reset();
  loop_.reset();
  payloads_.reset();
  ledger_.reset();
  mirror_.reset();
  return status;
}

}  // namespace buttress
