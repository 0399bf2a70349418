// The records that a coordinator sends to its standby (Follow in coordinator.proto).
#pragma once

#include <cstdint>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"

namespace buttress {

// The metadata of Follow that names the run which is followed.
inline constexpr char kFollowedRunKey[] = "buttress-run";

// The metadata with which a standby names itself.
inline constexpr char kStandbyNameKey[] = "buttress-standby";

// Returns what FollowResponse.check of `record` is.
std::uint32_t CheckOf(const v1::FollowResponse& record);

// Returns OK if `record` is whole and the next one behind number `before`. kDataLoss otherwise:
// nothing that follows in the stream may be used.
Status CheckFollows(const v1::FollowResponse& record, std::uint64_t before);

}  // namespace buttress
