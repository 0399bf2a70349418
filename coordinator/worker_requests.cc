// Requests of rollout workers.
#include <algorithm>
#include <cmath>

#include "coordinator/requests.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/experience/codec.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

LeaseRef FromWire(const v1::LeaseRef& ref) { return {ref.group_id(), ref.lease_epoch()}; }

void ToWire(const LeaseRef& ref, v1::LeaseRef& out) {
  out.set_group_id(ref.group_id);
  out.set_lease_epoch(ref.lease_epoch);
}

Result<WorkerExchange> FromWire(const v1::ExchangeRequest& request) {
  WorkerExchange exchange;
  exchange.worker_id = request.worker_id();
  exchange.incarnation = request.incarnation();
  for (const v1::LeaseRef& ref : request.held()) exchange.held.push_back(FromWire(ref));
  for (const v1::LeaseRef& ref : request.finished()) exchange.finished.push_back(FromWire(ref));
  for (const v1::ReturnedLease& returned : request.returned()) {
    if (returned.reason() < v1::RETURN_REASON_DRAINING ||
        returned.reason() > v1::RETURN_REASON_WEIGHTS_UNAVAILABLE) {
      return InvalidArgument("returned: reason " + std::to_string(returned.reason()) +
                             " is not one of coordinator.proto");
    }
    exchange.returned.push_back(
        {FromWire(returned.ref()), static_cast<ReturnReason>(returned.reason())});
  }
  exchange.capacity = request.draining() ? 0 : request.capacity();
  BUTTRESS_ASSIGN_OR_RETURN(exchange.loaded_version, FromProto(request.loaded_version()));
  return exchange;
}

// Every draw of a prompt has a seed of its own, the same on whatever worker and however often it is
// leased.
std::uint64_t GroupSeed(const RunTerms& terms, const DrawnPrompt& prompt) {
  return MixSeed(MixSeed(terms.seed, HashText(prompt.prompt_id)), prompt.pass);
}

Status FillLease(Turn& turn, const Lease& lease, v1::Lease& out) {
  BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, turn.prompts.Take(lease.prompt));
  ToWire(lease.ref, *out.mutable_ref());
  out.set_prompt_id(prompt.id);
  out.set_source(prompt.source);
  out.mutable_prompt_token_ids()->Add(prompt.token_ids.begin(), prompt.token_ids.end());
  out.set_answer(std::move(prompt.answer));
  out.set_extra_json(std::move(prompt.extra_json));
  out.set_completions(static_cast<std::uint32_t>(lease.prompt.completions));
  SamplingParams sampling = turn.terms.sampling;
  sampling.seed = GroupSeed(turn.terms, lease.prompt);
  *out.mutable_sampling() = ToProto(sampling);
  *out.mutable_min_version() = ToProto(lease.min_version);
  out.set_exact_version(lease.exact_version);
  out.set_ttl_ms(static_cast<std::uint32_t>(lease.ttl_ms));
  return OkStatus();
}

double MeanRawReward(const AcceptedRow& accepted) {
  double sum = 0;
  std::int64_t scored = 0;
  for (const CompletionRow& completion : accepted.completions) {
    if (completion.outcome == Outcome::kUnscorable) continue;
    sum += completion.raw_reward;
    ++scored;
  }
  return scored == 0 ? std::nan("") : sum / static_cast<double>(scored);
}

v1::SubmitResult ToWire(SubmitOutcome outcome) {
  switch (outcome) {
    case SubmitOutcome::kAccepted:
      return v1::SUBMIT_RESULT_ACCEPTED;
    case SubmitOutcome::kDuplicate:
      return v1::SUBMIT_RESULT_DUPLICATE;
    case SubmitOutcome::kStaleFence:
      return v1::SUBMIT_RESULT_STALE_FENCE;
    case SubmitOutcome::kStalePolicy:
      return v1::SUBMIT_RESULT_STALE_POLICY;
    case SubmitOutcome::kConflict:
    case SubmitOutcome::kMismatch:
      break;
  }
  return v1::SUBMIT_RESULT_UNSPECIFIED;
}

}  // namespace

Status RegisterWorker(Turn& turn, const v1::RegisterWorkerRequest& request,
                      v1::RegisterWorkerResponse& response) {
  if (request.worker_id().empty() || request.worker_id().size() > kMaxNameBytes) {
    return InvalidArgument("worker_id has " + std::to_string(request.worker_id().size()) +
                           " bytes; 1 to " + std::to_string(kMaxNameBytes) + " are expected");
  }
  if (request.weights_address().size() > kMaxNameBytes ||
      request.metrics_address().size() > kMaxNameBytes) {
    return InvalidArgument("worker " + request.worker_id() + ": an address has more than " +
                           std::to_string(kMaxNameBytes) + " bytes");
  }
  if (request.config_sha256() != turn.terms.config_sha256) {
    return FailedPrecondition("worker " + request.worker_id() + " runs configuration " +
                              request.config_sha256() + ", the coordinator " +
                              turn.terms.config_sha256 +
                              "; the `run` half of the file must be the same on both");
  }
  turn.scheduler.RegisterWorker(request.worker_id(), request.incarnation(),
                                {request.metrics_address(), request.weights_address()}, turn.now_ms,
                                turn.changes);
  response.set_coordinator_epoch(turn.scheduler.run().coordinator_epoch);
  response.set_run_name(turn.terms.run_name);
  Log(kInfo, "worker registered",
      {{"worker", request.worker_id()},
       {"engine", request.engine()},
       {"metrics", request.metrics_address()},
       {"weights", request.weights_address()}});
  return OkStatus();
}

std::optional<Status> Exchange(Turn& turn, bool last, const v1::ExchangeRequest& request,
                               v1::ExchangeResponse& response) {
  auto exchange = FromWire(request);
  if (!exchange.ok()) return exchange.status();
  if (turn.draining) exchange->capacity = 0;
  const auto reply = turn.scheduler.Exchange(*exchange, turn.now_ms, turn.changes);
  if (!reply.ok()) return reply.status();

  response.Clear();
  for (const Lease& lease : reply->leases) {
    if (const Status filled = FillLease(turn, lease, *response.add_leases()); !filled.ok()) {
      return turn.failed = filled;
    }
  }
  for (const LeaseRef& ref : reply->revoked) ToWire(ref, *response.add_revoked());
  const PublishedWeights* weights = turn.scheduler.weights();
  const bool newer = weights != nullptr && OlderThan(exchange->loaded_version, weights->version);
  if (newer && !response.mutable_weights()->ParseFromString(weights->manifest)) {
    return turn.failed = DataLoss("the ledger's manifest of version " + ToString(weights->version) +
                                  " is no WeightManifest");
  }
  if (newer) {
    for (std::string& relay : turn.scheduler.WeightRelays(exchange->worker_id, turn.now_ms)) {
      response.mutable_weights()->add_sources(std::move(relay));
    }
  }
  response.set_run_state(turn.scheduler.finished() ? v1::RUN_STATE_FINISHED
                         : turn.draining           ? v1::RUN_STATE_DRAINING
                                                   : v1::RUN_STATE_RUNNING);
  const bool news = newer || response.leases_size() > 0 || response.revoked_size() > 0 ||
                    response.run_state() != v1::RUN_STATE_RUNNING;
  if (news || last) return OkStatus();
  return std::nullopt;
}

bool MayBringWork(const LedgerChanges& changes) {
  // Groups that are handed out or come in take room; only groups that return, end or are drawn, and
  // new weights, give some.
  return !changes.manifests.empty() || !changes.plans.empty() || !changes.commits.empty() ||
         !changes.learners.empty() || !changes.checkpoints.empty() ||
         std::ranges::any_of(changes.groups, [](const GroupRow& group) {
           return group.state == GroupState::kPending || group.state == GroupState::kDropped;
         });
}

Status SubmitGroup(Turn& turn, Submission& submission, const std::string& bytes,
                   v1::SubmitGroupsResponse& response) {
  if (turn.scheduler.Check(submission) == SubmitOutcome::kAccepted) {
    auto payload = turn.payloads.Append(bytes, submission.content_sha256);
    if (!payload.ok()) {
      turn.metrics.Submitted("backpressure");
      return Unavailable("the payload cannot be stored: " + payload.status().message());
    }
    submission.accepted.payload = *payload;
    turn.payloads_appended = true;
    turn.metrics.submission_bytes.Increment(static_cast<double>(bytes.size()));
    if (const double mean = MeanRawReward(submission.accepted); !std::isnan(mean)) {
      turn.metrics.group_reward_mean.Observe(mean);
    }
  }
  const LeaseRef lease = submission.lease;
  const SubmitOutcome outcome = turn.scheduler.Submit(std::move(submission), turn.changes);
  turn.metrics.Submitted(SubmitOutcomeName(outcome));
  response.set_result(ToWire(outcome));
  const std::string which = "group " + std::to_string(lease.group_id) + " under lease epoch " +
                            std::to_string(lease.lease_epoch);
  if (outcome == SubmitOutcome::kConflict) {
    return AlreadyExists(which + " was accepted with other content");
  }
  if (outcome == SubmitOutcome::kMismatch) {
    return InvalidArgument(which +
                           " is not what was leased: another prompt, too many completions, or a "
                           "version that was never announced");
  }
  return OkStatus();
}

}  // namespace buttress
