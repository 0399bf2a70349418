#include "coordinator/service.h"

#include <fmt/core.h>

namespace buttress {

grpc::ServerUnaryReactor* CoordinatorService::Handle(std::string_view method,
                                                     std::function<Status(Turn& turn)> handler,
                                                     Effect effect) {
  return new UnaryCall(
      loop_, metrics_, method, 0,
      [handler = std::move(handler)](Turn& turn, bool) { return handler(turn); }, Awaited::kChanges,
      effect);
}

grpc::ServerUnaryReactor* CoordinatorService::Poll(std::string_view method, std::int64_t wait_ms,
                                                   UnaryCall::Handler handler, Awaited awaited) {
  return new UnaryCall(loop_, metrics_, method, wait_ms, std::move(handler), awaited,
                       Effect::kChanges);
}

v1::RunState RunStateOf(const Turn& turn) {
  if (turn.scheduler.finished()) return v1::RUN_STATE_FINISHED;
  const StopPhase stop = turn.scheduler.stop_phase();
  if (stop == StopPhase::kDone) return v1::RUN_STATE_STOPPED;
  if (stop == StopPhase::kRequested) return v1::RUN_STATE_STOPPING;
  return turn.draining ? v1::RUN_STATE_DRAINING : v1::RUN_STATE_RUNNING;
}

Status CheckWorkerRun(const Turn& turn, const std::string& run_id) {
  const std::string& own = turn.scheduler.run().run_id;
  if (run_id == own) return OkStatus();
  if (run_id.empty()) return NotFound("the call names no run; register first");
  return Aborted(fmt::format(
      "the call is of run {}, and this is run {}: what the worker holds is of no use here", run_id,
      own));
}

Status CountFenced(const Turn& turn, Status status) {
  if (status.code() == StatusCode::kFailedPrecondition) turn.metrics.learner_fenced.Increment();
  return status;
}

}  // namespace buttress
