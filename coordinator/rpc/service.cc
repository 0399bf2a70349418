#include "coordinator/rpc/service.h"

#include <fmt/core.h>

#include <algorithm>

namespace buttress {

grpc::ServerUnaryReactor* CoordinatorService::Handle(const UnaryCall::Options& options,
                                                     const google::protobuf::Message& request,
                                                     std::function<Status(Turn& turn)> handler) {
  return Poll(options, request,
              [handler = std::move(handler)](Turn& turn, bool) { return handler(turn); });
}

grpc::ServerUnaryReactor* CoordinatorService::Poll(const UnaryCall::Options& options,
                                                   const google::protobuf::Message& request,
                                                   UnaryCall::Handler handler) {
  return new UnaryCall(loop_, metrics_, request, options, std::move(handler));
}

bool IsPlainName(const std::string& text) {
  return text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
           return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
         });
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
