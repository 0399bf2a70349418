// A lease as the worker works on it: checked, with the prompt as text for the verifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"

namespace buttress {

// Names a lease; the epoch is its fence.
struct LeaseKey {
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;

  auto operator<=>(const LeaseKey&) const = default;
};

LeaseKey KeyOf(const SampleId& id);
LeaseKey KeyFromProto(const v1::LeaseRef& ref);
v1::LeaseRef ToProto(const LeaseKey& key);

struct WorkerLease {
  LeaseKey key;
  std::string prompt_id;
  std::string source;
  std::vector<std::int32_t> prompt_token_ids;  // [P]
  std::string prompt_text;                     // decoded once, special tokens kept
  std::string answer;
  std::string extra_json;
  std::int32_t completions = 0;  // n
  SamplingParams sampling;       // seed is the group's
  PolicyVersion min_version;
  bool exact_version = false;
  std::int64_t ttl_ms = 0;

  // The request for completion `index`; its seed depends on the group's and the index only.
  SampleRequest RequestFor(std::int32_t index) const;
};

// kInvalidArgument for a lease that cannot be worked on.
Result<WorkerLease> LeaseFromProto(const v1::Lease& proto, const Tokenizer& tokenizer);

}  // namespace buttress
