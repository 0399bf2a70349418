#include "coordinator/service.h"

namespace buttress {

grpc::ServerUnaryReactor* CoordinatorService::Handle(std::string_view method,
                                                     std::function<Status(Turn& turn)> handler) {
  return Poll(
      method, 0, [handler = std::move(handler)](Turn& turn, bool) { return handler(turn); },
      [](const LedgerChanges&) { return true; });
}

grpc::ServerUnaryReactor* CoordinatorService::Poll(std::string_view method, std::int64_t wait_ms,
                                                   UnaryCall::Handler handler,
                                                   UnaryCall::Concern concerned) {
  return new UnaryCall(loop_, metrics_, method, wait_ms, std::move(handler), concerned);
}

v1::RunState RunStateOf(const Turn& turn) {
  if (turn.scheduler.finished()) return v1::RUN_STATE_FINISHED;
  return turn.draining ? v1::RUN_STATE_DRAINING : v1::RUN_STATE_RUNNING;
}

Status CountFenced(const Turn& turn, Status status) {
  if (status.code() == StatusCode::kFailedPrecondition) turn.metrics.learner_fenced.Increment();
  return status;
}

grpc::ServerUnaryReactor* CoordinatorService::GetRunStatus(grpc::CallbackServerContext*,
                                                           const v1::GetRunStatusRequest*,
                                                           v1::GetRunStatusResponse* response) {
  return Handle("GetRunStatus", [response](Turn& turn) {
    const SchedulerStatus status = turn.scheduler.GetStatus();
    response->set_run_name(turn.terms.run_name);
    response->set_run_state(RunStateOf(turn));
    response->set_step(status.committed_step);
    response->set_total_steps(status.total_steps);
    if (status.announced) *response->mutable_version() = ToProto(*status.announced);
    for (std::size_t i = 0; i < kGroupStates; ++i) {
      const std::string name(GroupStateName(static_cast<GroupState>(i)));
      (*response->mutable_groups())[name] = static_cast<std::uint64_t>(status.groups[i]);
    }
    for (std::size_t i = 1; i < kDropReasons; ++i) {
      const std::string name(DropReasonName(static_cast<DropReason>(i)));
      (*response->mutable_dropped())[name] = static_cast<std::uint64_t>(status.dropped[i]);
    }
    *response->mutable_collapse() = ToProto(status.collapse);
    const auto leases = turn.scheduler.LeasesByWorker();
    for (const auto& [id, worker] : turn.scheduler.workers()) {
      v1::WorkerStatus& out = *response->add_workers();
      out.set_worker_id(id);
      if (const auto held = leases.find(id); held != leases.end())
        out.set_leases(static_cast<std::uint32_t>(held->second));
      *out.mutable_loaded_version() = ToProto(worker.loaded_version);
      out.set_silent_ms(static_cast<std::uint64_t>(turn.now_ms - worker.last_heard_ms));
      out.set_metrics_address(worker.addresses.metrics);
    }
    response->set_learner_epoch(status.learner_epoch);
    response->set_coordinator_epoch(status.coordinator_epoch);
    return OkStatus();
  });
}

}  // namespace buttress
