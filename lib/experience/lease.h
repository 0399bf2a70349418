// Leases: the coordinator grants a worker the right to sample one group until a deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/experience/types.h"

namespace buttress {

// Identifies a lease. The epoch is a fencing token: it rises with every grant of the group, and a
// submission under an older one is rejected.
struct LeaseRef {
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;

  auto operator<=>(const LeaseRef&) const = default;
};

// The upper bound of Lease::completions and of the completions of a group.
inline constexpr std::int32_t kMaxCompletions = 4096;

// A lease as the worker receives it.
struct Lease {
  LeaseRef ref;
  std::string prompt_id;
  std::string source;  // selects the verifier
  std::vector<std::int32_t> prompt_token_ids;
  std::string answer;            // the dataset's reference answer
  std::string extra_json;        // the dataset's row
  std::int32_t completions = 0;  // to sample, 1 to kMaxCompletions
  SamplingParams sampling;       // `seed` is the group's; each completion mixes in its index
  PolicyVersion min_version;     // the oldest version that may sample the group
  bool exact_version = false;    // only min_version may sample it
  std::int64_t ttl_ms = 0;       // until it expires, unless an Exchange renews it

  bool operator==(const Lease&) const = default;
};

// Why a worker returns a lease unfinished. The numbers equal those of v1::ReturnReason.
enum class ReturnReason : std::uint8_t {
  kUnspecified = 0,
  kDraining = 1,            // the worker shuts down
  kEngineFailed = 2,        // counts as an attempt of the group
  kWeightsUnavailable = 3,  // weights as new as the lease demands could not be loaded
};

struct ReturnedLease {
  LeaseRef ref;
  ReturnReason reason = ReturnReason::kUnspecified;
};

}  // namespace buttress
