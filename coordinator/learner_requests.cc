// Requests of the learner, and the run's status.
#include <algorithm>

#include "coordinator/requests.h"
#include "lib/base/log.h"
#include "lib/experience/codec.h"

namespace buttress {
namespace {

// Counts what an old incarnation of the learner asked for.
Status CountFenced(Turn& turn, Status status) {
  if (status.code() == StatusCode::kFailedPrecondition) turn.metrics.learner_fenced.Increment();
  return status;
}

void FillPlanned(const PlannedGroup& planned, v1::PlannedGroup& out) {
  const AcceptedRow& accepted = planned.accepted;
  out.set_group_id(accepted.group_id);
  out.set_prompt_id(planned.prompt.prompt_id);
  out.set_source(planned.prompt.source);
  out.set_prompt_tokens(static_cast<std::uint32_t>(accepted.prompt_tokens));
  for (const CompletionRow& completion : accepted.completions) {
    out.add_outcomes(static_cast<v1::Outcome>(completion.outcome));
    out.add_raw_rewards(completion.raw_reward);
    out.add_rewards(completion.reward);
    out.add_lengths(static_cast<std::uint32_t>(completion.trained_tokens));
    out.add_total_lengths(static_cast<std::uint32_t>(completion.total_tokens));
    out.add_truncated(completion.finish_reason == FinishReason::kLength);
  }
  out.mutable_components()->Add(accepted.components.begin(), accepted.components.end());
  for (const std::string& name : accepted.component_names) out.add_component_names(name);
  if (!accepted.versions.empty()) {
    *out.mutable_oldest_version() = ToProto(accepted.versions.front());
  }
  *out.mutable_history() = ToProto(accepted.history);
  out.set_payload_bytes(accepted.payload.bytes);
}

void ObserveNewPlan(Turn& turn, const BatchPlan& plan) {
  for (const PlannedGroup& planned : plan.groups) {
    if (planned.accepted.versions.empty()) continue;
    const double age = static_cast<double>(plan.step) - 1 -
                       static_cast<double>(planned.accepted.versions.front().step);
    turn.metrics.group_staleness_versions.Observe(age);
  }
}

void FillCounts(const SchedulerStatus& status, v1::GetRunStatusResponse& response) {
  for (std::size_t i = 0; i < kGroupStates; ++i) {
    (*response.mutable_groups())[std::string(GroupStateName(static_cast<GroupState>(i)))] =
        static_cast<std::uint64_t>(status.groups[i]);
  }
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    (*response.mutable_dropped())[std::string(DropReasonName(static_cast<DropReason>(i)))] =
        static_cast<std::uint64_t>(status.dropped[i]);
  }
}

}  // namespace

Status RegisterLearner(Turn& turn, const v1::RegisterLearnerRequest& request,
                       v1::RegisterLearnerResponse& response) {
  if (request.config_sha256() != turn.terms.config_sha256) {
    return FailedPrecondition("the learner runs configuration " + request.config_sha256() +
                              ", the coordinator " + turn.terms.config_sha256 +
                              "; the `run` half of the file must be the same on both");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion checkpoint, FromProto(request.checkpoint()));
  BUTTRESS_ASSIGN_OR_RETURN(
      const LearnerStart start,
      turn.scheduler.RegisterLearner(checkpoint, request.world_size(), turn.changes));
  response.set_learner_epoch(start.learner_epoch);
  response.set_next_step(start.next_step);
  Log(kInfo, "learner registered",
      {{"learner_epoch", start.learner_epoch},
       {"ranks", request.world_size()},
       {"next_step", start.next_step}});
  return OkStatus();
}

std::optional<Status> PlanBatch(Turn& turn, bool last, const v1::PlanBatchRequest& request,
                                v1::PlanBatchResponse& response) {
  const std::size_t plans_before = turn.changes.plans.size();
  const auto reply =
      turn.scheduler.PlanBatch(request.learner_epoch(), request.step(), turn.changes);
  if (!reply.ok()) return CountFenced(turn, reply.status());
  response.Clear();
  response.set_ready_groups(static_cast<std::uint32_t>(reply->ready_groups));
  const bool finished = reply->phase == RunPhase::kFinished;
  response.set_run_state(finished        ? v1::RUN_STATE_FINISHED
                         : turn.draining ? v1::RUN_STATE_DRAINING
                                         : v1::RUN_STATE_RUNNING);
  if (reply->plan) {
    if (turn.changes.plans.size() > plans_before) ObserveNewPlan(turn, *reply->plan);
    v1::BatchPlan& plan = *response.mutable_plan();
    plan.set_step(reply->plan->step);
    for (const PlannedGroup& planned : reply->plan->groups) {
      FillPlanned(planned, *plan.add_groups());
    }
    *plan.mutable_collapse() = ToProto(reply->plan->collapse);
  }
  if (reply->plan || finished || turn.draining || last) return OkStatus();
  return std::nullopt;
}

bool MayFillBatch(const LedgerChanges& changes) {
  return !changes.accepted.empty() || !changes.commits.empty() || !changes.learners.empty() ||
         std::ranges::any_of(changes.groups, [](const GroupRow& group) {
           return group.state == GroupState::kDropped;
         });
}

Status FetchGroups(Turn& turn, const v1::FetchGroupsRequest& request,
                   std::vector<PayloadRef>& refs) {
  auto found = turn.scheduler.Payloads(
      request.learner_epoch(), request.step(),
      {request.group_ids().data(), static_cast<std::size_t>(request.group_ids_size())});
  if (!found.ok()) return CountFenced(turn, found.status());
  refs = std::move(*found);
  return OkStatus();
}

Status Commit(Turn& turn, const v1::CommitRequest& request) {
  if (request.version().step() != request.step()) {
    return InvalidArgument("commit of step " + std::to_string(request.step()) +
                           " names version step " + std::to_string(request.version().step()) +
                           "; the version after a step has the step's number");
  }
  BUTTRESS_RETURN_IF_ERROR(CountFenced(
      turn, turn.scheduler.Commit(request.learner_epoch(), request.step(), turn.changes)));
  turn.metrics.last_batch_committed.Set(static_cast<double>(RealClock().UnixMs()) / 1000);
  return OkStatus();
}

Status AnnounceWeights(Turn& turn, const v1::AnnounceWeightsRequest& request) {
  constexpr std::size_t kDigestBytes = 32;
  PublishedWeights weights;
  BUTTRESS_ASSIGN_OR_RETURN(weights.version, FromProto(request.manifest().version()));
  if (weights.version.digest.size() != kDigestBytes) {
    return InvalidArgument("the manifest's version has no digest");
  }
  weights.manifest = request.manifest().SerializeAsString();
  return CountFenced(turn, turn.scheduler.Announce(request.learner_epoch(), weights, turn.changes));
}

Status Checkpointed(Turn& turn, const v1::CheckpointedRequest& request) {
  return CountFenced(turn, turn.scheduler.Checkpointed(request.learner_epoch(), request.step(),
                                                       request.digest(), turn.changes));
}

Status GetRunStatus(Turn& turn, v1::GetRunStatusResponse& response) {
  const SchedulerStatus status = turn.scheduler.GetStatus();
  response.set_run_name(turn.terms.run_name);
  response.set_run_state(turn.scheduler.finished() ? v1::RUN_STATE_FINISHED
                         : turn.draining           ? v1::RUN_STATE_DRAINING
                                                   : v1::RUN_STATE_RUNNING);
  response.set_step(status.committed_step);
  response.set_total_steps(status.total_steps);
  if (status.announced) *response.mutable_version() = ToProto(*status.announced);
  FillCounts(status, response);
  *response.mutable_collapse() = ToProto(status.collapse);
  const auto leases = turn.scheduler.LeasesByWorker();
  for (const auto& [id, worker] : turn.scheduler.workers()) {
    v1::WorkerStatus& out = *response.add_workers();
    out.set_worker_id(id);
    if (const auto held = leases.find(id); held != leases.end()) {
      out.set_leases(static_cast<std::uint32_t>(held->second));
    }
    *out.mutable_loaded_version() = ToProto(worker.loaded_version);
    out.set_silent_ms(static_cast<std::uint64_t>(turn.now_ms - worker.last_heard_ms));
    out.set_metrics_address(worker.addresses.metrics);
  }
  response.set_learner_epoch(status.learner_epoch);
  response.set_coordinator_epoch(status.coordinator_epoch);
  return OkStatus();
}

}  // namespace buttress
