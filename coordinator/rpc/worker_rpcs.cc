// RPCs of rollout workers: RegisterWorker and Exchange. submit_groups.cc has SubmitGroups.
#include <fmt/core.h>

#include <algorithm>

#include "coordinator/rpc/handlers.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"

namespace buttress {
namespace {

constexpr std::size_t kSecretBytes = 32;
// Leases of one response, so that it fits in a message. One lease always does.
constexpr std::size_t kLeaseBytes = std::size_t{4} << 20;
// Of one process; sums over many stay far below 2^63.
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 48;

Result<WorkerTokens> TokensFrom(const v1::WorkerTokens& tokens) {
  const std::uint64_t numbers[] = {tokens.generated(), tokens.cut(), tokens.refused()};
  if (*std::ranges::max_element(numbers) > kMostTokens) {
    return InvalidArgument(
        fmt::format("tokens: {} generated, {} cut, {} refused; expected at most {} each",
                    tokens.generated(), tokens.cut(), tokens.refused(), kMostTokens));
  }
  return WorkerTokens{static_cast<std::int64_t>(tokens.generated()),
                      static_cast<std::int64_t>(tokens.cut()),
                      static_cast<std::int64_t>(tokens.refused())};
}

Result<WorkerExchange> ExchangeFrom(const v1::ExchangeRequest& request) {
  WorkerExchange exchange;
  exchange.worker_id = request.worker_id();
  exchange.incarnation = request.incarnation();
  exchange.secret_sha256 = Sha256Of(request.worker_secret());
  for (const v1::LeaseRef& ref : request.held()) exchange.held.push_back(FromProto(ref));
  for (const v1::LeaseRef& ref : request.finished()) exchange.finished.push_back(FromProto(ref));
  for (const v1::ReturnedLease& returned : request.returned()) {
    BUTTRESS_ASSIGN_OR_RETURN(exchange.returned.emplace_back(), FromProto(returned));
  }
  // A worker that drains would get the groups that it returns again, before those who wait.
  const bool drains =
      request.draining() || std::ranges::any_of(exchange.returned, [](const ReturnedLease& lease) {
        return lease.reason == ReturnReason::kDraining;
      });
  exchange.capacity = drains ? 0 : request.capacity();
  BUTTRESS_ASSIGN_OR_RETURN(exchange.loaded_version, FromProto(request.loaded_version()));
  BUTTRESS_ASSIGN_OR_RETURN(exchange.tokens, TokensFrom(request.tokens()));
  for (const v1::PartialCompletion& proto : request.partials()) {
    Result<PartialCompletion> partial = FromProto(proto);
    if (!partial.ok()) {
      return InvalidArgument(fmt::format("partials of group {}: {}", proto.lease().group_id(),
                                         partial.status().message()));
    }
    exchange.partials.emplace_back(FromProto(proto.lease()), *std::move(partial));
  }
  return exchange;
}

// Returns the lease with its prompt, and remembers what a submission must repeat.
Result<v1::Lease> WithPrompt(Turn& turn, const GrantedLease& granted) {
  BUTTRESS_ASSIGN_OR_RETURN(const Prompt prompt, turn.prompts.Read(granted.prompt));
  v1::Lease lease;
  *lease.mutable_ref() = ToProto(granted.ref);
  lease.set_prompt_id(prompt.id);
  lease.set_source(prompt.source);
  lease.mutable_prompt_token_ids()->Add(prompt.token_ids.begin(), prompt.token_ids.end());
  lease.set_answer(prompt.answer);
  lease.set_extra_json(prompt.extra_json);
  lease.set_completions(static_cast<std::uint32_t>(granted.prompt.completions));
  *lease.mutable_sampling() = ToProto(SamplingOf(turn.terms, granted.prompt));
  *lease.mutable_min_version() = ToProto(granted.min_version);
  lease.set_exact_version(granted.exact_version);
  lease.set_ttl_ms(static_cast<std::uint32_t>(granted.ttl_ms));
  for (const PartialCompletion& partial : granted.partials)
    *lease.add_partials() = ToProto(partial);
  lease.set_control(turn.reports.controls.Wants(granted.ref.group_id));
  turn.leased_prompts[granted.ref.group_id] = PromptDigest(prompt.token_ids);
  return lease;
}

Status AddLeases(Turn& turn, const ExchangeReply& reply, v1::ExchangeResponse& response) {
  std::size_t bytes = 0;
  for (const GrantedLease& granted : reply.leases) {
    // The worker does not name the others in its next call, which grants them again.
    if (bytes > kLeaseBytes) break;
    // The lease is in the turn's changes already, so an unreadable prompt ends the process.
    auto lease = WithPrompt(turn, granted);
    if (!lease.ok()) return turn.failed = lease.status();
    *response.add_leases() = *std::move(lease);
    bytes += response.leases(response.leases_size() - 1).ByteSizeLong();
  }
  for (const LeaseRef& ref : reply.revoked) *response.add_revoked() = ToProto(ref);
  return OkStatus();
}

Status AddWeights(Turn& turn, const WorkerExchange& exchange, v1::ExchangeResponse& response) {
  const ManifestRow* const weights = turn.scheduler.weights();
  if (weights == nullptr || !OlderThan(exchange.loaded_version, weights->version))
    return OkStatus();
  if (Status parsed = turn.announced.Parse(*weights); !parsed.ok())
    return turn.failed = std::move(parsed);
  v1::WeightManifest& manifest = *response.mutable_weights();
  manifest = turn.announced.manifest;
  for (std::string& relay : turn.scheduler.WeightRelays(exchange.worker_id, turn.now_ms))
    manifest.add_sources(std::move(relay));
  return OkStatus();
}

// Returns true if the worker has something to do with the answer.
bool HasNews(const v1::ExchangeResponse& response) {
  // A worker has nothing to do while the learner writes the checkpoint of a stop.
  const bool waits = response.run_state() == v1::RUN_STATE_RUNNING ||
                     response.run_state() == v1::RUN_STATE_STOPPING;
  return response.has_weights() || response.leases_size() > 0 || response.revoked_size() > 0 ||
         !waits || response.order() == v1::WORKER_ORDER_DRAIN;
}

// Checks what the log or the scheduler keeps of a worker, besides its id.
Status CheckNames(const v1::RegisterWorkerRequest& request) {
  const std::pair<const char*, const std::string&> names[] = {
      {"weights_address", request.weights_address()},
      {"metrics_address", request.metrics_address()},
      {"engine", request.engine()},
      {"config_sha256", request.config_sha256()},
      {"run_id", request.run_id()},
      {"start_id", request.start_id()},
  };
  for (const auto& [field, text] : names) {
    if (IsPlainName(text)) continue;
    return InvalidArgument(
        fmt::format("worker '{}': {} has {} bytes; expected at most {} without white space or "
                    "control characters",
                    request.worker_id(), field, text.size(), kMaxNameBytes));
  }
  return OkStatus();
}

}  // namespace

std::string PromptDigest(std::span<const std::int32_t> token_ids) {
  return Sha256Of({reinterpret_cast<const char*>(token_ids.data()), token_ids.size_bytes()});
}

SamplingParams SamplingOf(const RunTerms& terms, const DrawnPrompt& prompt) {
  SamplingParams sampling = terms.sampling;
  if (const auto own = terms.max_tokens.find(prompt.source); own != terms.max_tokens.end())
    sampling.max_tokens = own->second;
  sampling.seed = MixSeed(MixSeed(terms.seed, HashText(prompt.prompt_id)), prompt.pass);
  return sampling;
}

bool IsPlainName(const std::string& text) {
  return text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
           return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
         });
}

Status CheckWorkerRun(const Turn& turn, const std::string& run_id) {
  const std::string& own = turn.scheduler.run().run_id;
  if (run_id == own) return OkStatus();
  if (run_id.empty()) return NotFound("the call names no run; register first");
  return Aborted(fmt::format(
      "the call is of run {}, and this is run {}: what the worker holds is of no use here", run_id,
      own));
}

Status AnnouncedManifest::Parse(const ManifestRow& weights) {
  if (version == weights.version) return OkStatus();
  if (!manifest.ParseFromString(weights.bytes)) {
    return DataLoss(
        fmt::format("the ledger's manifest of version {} is not a WeightManifest; "
                    "restore ledger.db from a copy",
                    ToString(weights.version)));
  }
  version = weights.version;
  return OkStatus();
}

std::optional<Status> Apply(Turn& turn, const v1::RegisterWorkerRequest& request,
                            v1::RegisterWorkerResponse& response, bool) {
  const std::string& id = request.worker_id();
  if (id.empty() || !IsPlainName(id)) {
    return InvalidArgument(
        fmt::format("worker_id has {} bytes; expected 1 to {} without white space or control "
                    "characters",
                    id.size(), kMaxNameBytes));
  }
  BUTTRESS_RETURN_IF_ERROR(CheckNames(request));
  if (request.worker_secret().size() != kSecretBytes) {
    return InvalidArgument(fmt::format("worker '{}': worker_secret has {} bytes; expected {}", id,
                                       request.worker_secret().size(), kSecretBytes));
  }
  if (request.config_sha256() != turn.terms.config_sha256) {
    return FailedPrecondition(
        fmt::format("worker '{}' runs configuration {}, the coordinator {}; the `run` half of "
                    "the file must be the same on both",
                    id, request.config_sha256(), turn.terms.config_sha256));
  }
  const JoiningWorker worker = {id,
                                request.incarnation(),
                                {request.metrics_address(), request.weights_address()},
                                request.run_id(),
                                request.start_id(),
                                Sha256Of(request.worker_secret())};
  BUTTRESS_RETURN_IF_ERROR(turn.scheduler.RegisterWorker(worker, turn.now_ms, turn.changes));
  response.set_coordinator_epoch(turn.scheduler.run().coordinator_epoch);
  response.set_run_name(turn.scheduler.run().run_name);
  response.set_run_id(turn.scheduler.run().run_id);
  response.set_start_id(turn.terms.start_id);
  response.set_steps(turn.scheduler.steps());
  Log(kInfo, "worker registered",
      {{"worker", id},
       {"engine", request.engine()},
       {"metrics", request.metrics_address()},
       {"weights", request.weights_address()}});
  return OkStatus();
}

std::optional<Status> Apply(Turn& turn, const v1::ExchangeRequest& request,
                            v1::ExchangeResponse& response, bool last) {
  if (Status known = CheckWorkerRun(turn, request.run_id()); !known.ok()) return known;
  auto exchange = ExchangeFrom(request);
  if (!exchange.ok()) return exchange.status();
  if (turn.draining) exchange->capacity = 0;
  const auto reply = turn.scheduler.Exchange(*exchange, turn.now_ms, turn.changes);
  if (!reply.ok()) return reply.status();
  if (request.has_time()) turn.reports.Take(request.worker_id(), request.time());
  turn.reports.controls.Take(request, turn.metrics.metrics);

  response.Clear();
  BUTTRESS_RETURN_IF_ERROR(AddLeases(turn, *reply, response));
  BUTTRESS_RETURN_IF_ERROR(AddWeights(turn, *exchange, response));
  response.set_run_state(RunStateOf(turn));
  if (response.run_state() == v1::RUN_STATE_STOPPED &&
      turn.scheduler.AwaitsLearner(request.worker_id()))
    response.set_run_state(v1::RUN_STATE_RUNNING);
  response.set_order(
      static_cast<v1::WorkerOrder>(turn.scheduler.workers().OrderOf(request.worker_id())));
  if (HasNews(response) || last) return OkStatus();
  return std::nullopt;
}

RequestTerms TermsOf(const v1::ExchangeRequest& request) {
  const bool has_room = request.capacity() > 0 && !request.draining();
  return {.hold_ms = request.wait_ms(), .awaits = has_room ? Awaited::kGroups : Awaited::kNews};
}

}  // namespace buttress
