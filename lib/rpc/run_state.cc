#include "lib/rpc/run_state.h"

namespace buttress {

const char* RunStateText(v1::RunState state) {
  switch (state) {
    case v1::RUN_STATE_RUNNING:
      return "running";
    case v1::RUN_STATE_DRAINING:
      return "draining";
    case v1::RUN_STATE_FINISHED:
      return "finished";
    case v1::RUN_STATE_STOPPING:
      return "stopping";
    case v1::RUN_STATE_STOPPED:
      return "stopped";
    default:
      return "unknown";
  }
}

const char* RunStateText(const v1::GetRunStatusResponse& run) {
  return run.paused().empty() ? RunStateText(run.run_state()) : "paused";
}

}  // namespace buttress
