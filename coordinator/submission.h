// From the bytes of a group to what the scheduler is asked to take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/scheduler.h"
#include "lib/base/status.h"
#include "lib/experience/codec.h"

namespace buttress {

// What a worker says of a group beside its bytes.
struct SubmitClaim {
  std::string_view worker_id;
  std::uint64_t incarnation = 0;
  LeaseRef lease;
  std::string_view content_sha256;  // 32 bytes
};

// kInvalidArgument if `bytes` do not have the hash, are no group within `limits`, or one of another
// id or worker.
Result<Submission> ReadSubmission(const SubmitClaim& claim, std::string_view bytes,
                                  const GroupLimits& limits);

}  // namespace buttress
