// RPCs of rollout workers: RegisterWorker and Exchange. submit_groups.cc has SubmitGroups.
#include <fmt/core.h>

#include <algorithm>

#include "coordinator/service.h"
#include "lib/base/log.h"
#include "lib/base/random.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

LeaseRef LeaseRefFrom(const v1::LeaseRef& ref) { return {ref.group_id(), ref.lease_epoch()}; }

Result<WorkerExchange> ExchangeFrom(const v1::ExchangeRequest& request) {
  WorkerExchange exchange;
  exchange.worker_id = request.worker_id();
  exchange.incarnation = request.incarnation();
  for (const v1::LeaseRef& ref : request.held()) exchange.held.push_back(LeaseRefFrom(ref));
  for (const v1::LeaseRef& ref : request.finished()) exchange.finished.push_back(LeaseRefFrom(ref));
  for (const v1::ReturnedLease& returned : request.returned()) {
    if (returned.reason() < v1::RETURN_REASON_DRAINING ||
        returned.reason() > v1::RETURN_REASON_WEIGHTS_UNAVAILABLE) {
      return InvalidArgument(fmt::format("returned: reason {} is not one of coordinator.proto",
                                         static_cast<int>(returned.reason())));
    }
    exchange.returned.push_back(
        {LeaseRefFrom(returned.ref()), static_cast<ReturnReason>(returned.reason())});
  }
  exchange.capacity = request.draining() ? 0 : request.capacity();
  BUTTRESS_ASSIGN_OR_RETURN(exchange.loaded_version, FromProto(request.loaded_version()));
  return exchange;
}

void FillRef(const LeaseRef& ref, v1::LeaseRef& out) {
  out.set_group_id(ref.group_id);
  out.set_lease_epoch(ref.lease_epoch);
}

// Fills `out` with the lease and its prompt. Each draw of a prompt has a seed of its own, which is
// the same for every worker and every lease of it.
Status FillLease(Turn& turn, const Lease& lease, v1::Lease& out) {
  BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, turn.prompts.Read(lease.prompt));
  FillRef(lease.ref, *out.mutable_ref());
  out.set_prompt_id(std::move(prompt.id));
  out.set_source(std::move(prompt.source));
  out.mutable_prompt_token_ids()->Add(prompt.token_ids.begin(), prompt.token_ids.end());
  out.set_answer(std::move(prompt.answer));
  out.set_extra_json(std::move(prompt.extra_json));
  out.set_completions(static_cast<std::uint32_t>(lease.prompt.completions));
  SamplingParams sampling = turn.terms.sampling;
  sampling.seed =
      MixSeed(MixSeed(turn.terms.seed, HashText(lease.prompt.prompt_id)), lease.prompt.pass);
  *out.mutable_sampling() = ToProto(sampling);
  *out.mutable_min_version() = ToProto(lease.min_version);
  out.set_exact_version(lease.exact_version);
  out.set_ttl_ms(static_cast<std::uint32_t>(lease.ttl_ms));
  return OkStatus();
}

// Only groups that return, end or are drawn, and new weights, can bring work to a parked worker.
bool MayBringWork(const LedgerChanges& changes) {
  return !changes.manifests.empty() || !changes.plans.empty() || !changes.commits.empty() ||
         !changes.learners.empty() || !changes.checkpoints.empty() ||
         std::ranges::any_of(changes.groups, [](const GroupRow& group) {
           return group.state == GroupState::kPending || group.state == GroupState::kDropped;
         });
}

}  // namespace

grpc::ServerUnaryReactor* CoordinatorService::RegisterWorker(
    grpc::CallbackServerContext*, const v1::RegisterWorkerRequest* request,
    v1::RegisterWorkerResponse* response) {
  return Handle("RegisterWorker", [request, response](Turn& turn) {
    const std::string& id = request->worker_id();
    if (id.empty() || id.size() > kMaxNameBytes) {
      return InvalidArgument(
          fmt::format("worker_id has {} bytes; expected 1 to {}", id.size(), kMaxNameBytes));
    }
    if (std::max(request->weights_address().size(), request->metrics_address().size()) >
        kMaxNameBytes) {
      return InvalidArgument(fmt::format(
          "worker '{}': an address has more than {} bytes; expected host:port", id, kMaxNameBytes));
    }
    if (request->config_sha256() != turn.terms.config_sha256) {
      return FailedPrecondition(
          fmt::format("worker '{}' runs configuration {}, the coordinator {}; "
                      "the `run` half of the file must "
                      "be the same on both",
                      id, request->config_sha256(), turn.terms.config_sha256));
    }
    turn.scheduler.RegisterWorker(id, request->incarnation(),
                                  {request->metrics_address(), request->weights_address()},
                                  turn.now_ms, turn.changes);
    response->set_coordinator_epoch(turn.scheduler.run().coordinator_epoch);
    response->set_run_name(turn.terms.run_name);
    Log(kInfo, "worker registered",
        {{"worker", id},
         {"engine", request->engine()},
         {"metrics", request->metrics_address()},
         {"weights", request->weights_address()}});
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Exchange(grpc::CallbackServerContext*,
                                                       const v1::ExchangeRequest* request,
                                                       v1::ExchangeResponse* response) {
  const auto handler = [request, response](Turn& turn, bool last) -> std::optional<Status> {
    auto exchange = ExchangeFrom(*request);
    if (!exchange.ok()) return exchange.status();
    if (turn.draining) exchange->capacity = 0;
    const auto reply = turn.scheduler.Exchange(*exchange, turn.now_ms, turn.changes);
    if (!reply.ok()) return reply.status();

    response->Clear();
    for (const Lease& lease : reply->leases) {
      // The lease is in the turn's changes already, so an unreadable prompt ends the process.
      if (Status status = FillLease(turn, lease, *response->add_leases()); !status.ok())
        return turn.failed = std::move(status);
    }
    for (const LeaseRef& ref : reply->revoked) FillRef(ref, *response->add_revoked());
    const PublishedWeights* const weights = turn.scheduler.weights();
    if (weights != nullptr && OlderThan(exchange->loaded_version, weights->version)) {
      v1::WeightManifest& manifest = *response->mutable_weights();
      if (!manifest.ParseFromString(weights->manifest)) {
        return turn.failed = DataLoss(fmt::format("the ledger's manifest of version {} is not a "
                                                  "WeightManifest; restore ledger.db from a copy",
                                                  ToString(weights->version)));
      }
      for (std::string& relay : turn.scheduler.WeightRelays(exchange->worker_id, turn.now_ms))
        manifest.add_sources(std::move(relay));
    }
    response->set_run_state(RunStateOf(turn));

    const bool news = response->has_weights() || response->leases_size() > 0 ||
                      response->revoked_size() > 0 ||
                      response->run_state() != v1::RUN_STATE_RUNNING;
    if (news || last) return OkStatus();
    return std::nullopt;
  };
  return Poll("Exchange", request->wait_ms(), handler, MayBringWork);
}

}  // namespace buttress
