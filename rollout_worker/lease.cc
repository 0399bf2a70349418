#include "rollout_worker/lease.h"

#include "lib/base/random.h"
#include "lib/experience/codec.h"

namespace buttress {
namespace {

constexpr std::uint32_t kMaxCompletions = 4096;  // GroupLimits has the same

}  // namespace

LeaseKey KeyOf(const SampleId& id) { return {id.group_id, id.lease_epoch}; }

LeaseKey KeyFromProto(const v1::LeaseRef& ref) { return {ref.group_id(), ref.lease_epoch()}; }

v1::LeaseRef ToProto(const LeaseKey& key) {
  v1::LeaseRef ref;
  ref.set_group_id(key.group_id);
  ref.set_lease_epoch(key.lease_epoch);
  return ref;
}

SampleRequest WorkerLease::RequestFor(std::int32_t index) const {
  SampleRequest request;
  request.id = {key.group_id, key.lease_epoch, index};
  request.prompt_token_ids = prompt_token_ids;
  request.sampling = sampling;
  request.sampling.seed = MixSeed(sampling.seed, static_cast<std::uint64_t>(index));
  return request;
}

Result<WorkerLease> LeaseFromProto(const v1::Lease& proto, const Tokenizer& tokenizer) {
  WorkerLease lease;
  lease.key = KeyFromProto(proto.ref());
  lease.prompt_id = proto.prompt_id();
  lease.source = proto.source();
  lease.answer = proto.answer();
  lease.extra_json = proto.extra_json();
  if (proto.completions() < 1 || proto.completions() > kMaxCompletions) {
    return InvalidArgument("a lease asks for " + std::to_string(proto.completions()) +
                           " completions; 1 to " + std::to_string(kMaxCompletions) +
                           " are possible");
  }
  lease.completions = static_cast<std::int32_t>(proto.completions());
  const auto vocab_size = static_cast<std::uint32_t>(tokenizer.vocab_size());
  for (const std::uint32_t token : proto.prompt_token_ids()) {
    if (token >= vocab_size) {
      return InvalidArgument("prompt '" + lease.prompt_id + "' holds token " +
                             std::to_string(token) + "; this worker's tokenizer has " +
                             std::to_string(vocab_size));
    }
    lease.prompt_token_ids.push_back(static_cast<std::int32_t>(token));
  }
  if (lease.prompt_token_ids.empty())
    return InvalidArgument("prompt '" + lease.prompt_id + "' has no tokens");
  BUTTRESS_ASSIGN_OR_RETURN(lease.prompt_text,
                            tokenizer.Decode(lease.prompt_token_ids, SpecialTokens::kKeep));
  BUTTRESS_ASSIGN_OR_RETURN(lease.sampling, FromProto(proto.sampling()));
  BUTTRESS_ASSIGN_OR_RETURN(lease.min_version, FromProto(proto.min_version()));
  lease.exact_version = proto.exact_version();
  lease.ttl_ms = proto.ttl_ms();
  return lease;
}

}  // namespace buttress
