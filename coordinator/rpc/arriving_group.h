// A group on its way from a worker to the ledger, without gRPC (submit_groups.cc): parts are added,
// the whole is hashed, parsed and checked, and the loop accepts it.
//
// A group that is refused ends its lease, whatever the worker says of it afterwards, and counts
// against the worker (workers.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/loop/quota.h"
#include "coordinator/loop/turn.h"
#include "lib/experience/check.h"

namespace buttress {

// The size of a submitted group in bytes, at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// What a group says about its lease.
struct SampledAs {
  std::string source;
  std::string prompt_digest;
  SamplingParams sampling;
  std::vector<PolicyVersion> versions;  // each once, with its digest
  // Whether the prompt is what the conversations begin with, which is not the leased one.
  bool episodes = false;
};

// Not thread-safe: one call at a time.
class ArrivingGroup {
 public:
  // What comes next.
  enum class Next : std::uint8_t { kPart, kApply, kAnswer };

  // `arriving` bounds the groups that arrive, and is taken from as long as this lives.
  ArrivingGroup(Quota& arriving, const GroupLimits& limits, CoordinatorMetrics& metrics)
      : arriving_(arriving), limits_(limits), metrics_(metrics) {}

  ~ArrivingGroup();
  ArrivingGroup(const ArrivingGroup&) = delete;
  ArrivingGroup& operator=(const ArrivingGroup&) = delete;

  // Adds a part, which it may empty: a header, then data. kApply once the group is complete or is
  // refused, so that its lease ends; kAnswer if the call ends with `answer` at once.
  Next Add(v1::SubmitGroupsRequest& part, Status& answer);

  // Returns the answer to a worker that has left in the middle, which may submit the group again.
  Status LeftEarly() const;

  // Appends the payload of a group that will be accepted, and submits it to the scheduler.
  // REQUIRES: Add has returned kApply.
  Status Apply(Turn& turn, v1::SubmitGroupsResponse& response);

 private:
  Status AddPart(v1::SubmitGroupsRequest& part);
  Status BeginGroup(v1::SubmitHeader& header);
  Status ParseGroup();
  void EndRefusedLease(Turn& turn, const Status& why);

  Quota& arriving_;
  const GroupLimits& limits_;
  CoordinatorMetrics& metrics_;
  v1::SubmitHeader header_;
  bool has_header_ = false;
  std::uint64_t reserved_ = 0;  // bytes of the group, once its header has come
  std::string bytes_;           // of the group, as they arrive
  Submission submission_;
  SampledAs sampled_;
  Status refusal_;  // of a group that the loop does not accept whatever its lease is
};

}  // namespace buttress
