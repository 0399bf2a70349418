// The state of a run in words, and the answer of one that is paused.
#pragma once

#include <string>
#include <string_view>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"

namespace buttress {

// "running", "draining", "stopping", ...
inline const char* RunStateText(v1::RunState state) {
  constexpr const char* kNames[] = {"unknown",  "running",  "draining",
                                    "finished", "stopping", "stopped"};  // by number
  return v1::RunState_IsValid(state) ? kNames[state] : kNames[0];
}

// The same, or "paused" where the coordinator waits for disk space.
inline const char* RunStateText(const v1::GetRunStatusResponse& run) {
  return run.paused().empty() ? RunStateText(run.run_state()) : "paused";
}

inline constexpr std::string_view kPausedMessage = "the coordinator is paused: ";

// The answer to a call that changes the run while it is paused because of `why`; the caller tries
// again.
inline Status PausedStatus(const std::string& why) {
  return Unavailable(std::string(kPausedMessage) + why);
}

inline bool IsPaused(const Status& status) {
  return status.code() == StatusCode::kUnavailable && status.message().starts_with(kPausedMessage);
}

}  // namespace buttress
