// The answer of a coordinator that is up, but accepts no call that changes the run, to such a call.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

inline constexpr std::string_view kPausedMessage = "the coordinator is paused: ";

// The answer to a call while the run is paused because of `why`; the caller tries again.
inline Status PausedStatus(const std::string& why) {
  return Unavailable(std::string(kPausedMessage) + why);
}

inline bool IsPaused(const Status& status) {
  return status.code() == StatusCode::kUnavailable && status.message().starts_with(kPausedMessage);
}

}  // namespace buttress
