// RPCs of rollout workers: RegisterWorker and Exchange. submit_groups.cc has SubmitGroups.
#include <fmt/core.h>

#include <algorithm>

#include "coordinator/service.h"
#include "lib/base/log.h"
#include "lib/base/random.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

Result<WorkerExchange> ExchangeFrom(const v1::ExchangeRequest& request) {
  WorkerExchange exchange;
  exchange.worker_id = request.worker_id();
  exchange.incarnation = request.incarnation();
  for (const v1::LeaseRef& ref : request.held()) exchange.held.push_back(FromProto(ref));
  for (const v1::LeaseRef& ref : request.finished()) exchange.finished.push_back(FromProto(ref));
  for (const v1::ReturnedLease& returned : request.returned()) {
    BUTTRESS_ASSIGN_OR_RETURN(exchange.returned.emplace_back(), FromProto(returned));
  }
  exchange.capacity = request.draining() ? 0 : request.capacity();
  BUTTRESS_ASSIGN_OR_RETURN(exchange.loaded_version, FromProto(request.loaded_version()));
  return exchange;
}

// Returns the lease with its prompt. Each draw of a prompt has a seed of its own, which is the same
// for every worker and every lease of it.
Result<Lease> WithPrompt(Turn& turn, const GrantedLease& granted) {
  BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, turn.prompts.Read(granted.prompt));
  Lease lease;
  lease.ref = granted.ref;
  lease.prompt_id = std::move(prompt.id);
  lease.source = std::move(prompt.source);
  lease.prompt_token_ids = std::move(prompt.token_ids);
  lease.answer = std::move(prompt.answer);
  lease.extra_json = std::move(prompt.extra_json);
  lease.completions = granted.prompt.completions;
  lease.sampling = turn.terms.sampling;
  lease.sampling.seed =
      MixSeed(MixSeed(turn.terms.seed, HashText(granted.prompt.prompt_id)), granted.prompt.pass);
  lease.min_version = granted.min_version;
  lease.exact_version = granted.exact_version;
  lease.ttl_ms = granted.ttl_ms;
  return lease;
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
    for (const GrantedLease& granted : reply->leases) {
      // The lease is in the turn's changes already, so an unreadable prompt ends the process.
      const auto lease = WithPrompt(turn, granted);
      if (!lease.ok()) return turn.failed = lease.status();
      *response->add_leases() = ToProto(*lease);
    }
    for (const LeaseRef& ref : reply->revoked) *response->add_revoked() = ToProto(ref);
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
