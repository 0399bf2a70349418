// This process at the coordinator: registers, and registers again when the coordinator has
// forgotten it.
#pragma once

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/status.h"
#include "lib/rpc/coordinator_client.h"
#include "rollout_worker/lease.h"

namespace buttress {

// Thread-safe. `client` outlives it; its calls are tried again in there.
class CoordinatorSession {
 public:
  // `self.incarnation` is random per process; leases of an older one are dropped by the
  // coordinator.
  CoordinatorSession(CoordinatorClient& client, v1::RegisterWorkerRequest self)
      : client_(client), self_(std::move(self)) {}

  // kInvalidArgument: the coordinator runs another configuration.
  Status Register();

  // worker_id and incarnation are filled here.
  Result<v1::ExchangeResponse> Exchange(v1::ExchangeRequest request);

  Result<v1::SubmitResult> Submit(const LeaseKey& key, const EncodedGroup& group);

 private:
  CoordinatorClient& client_;
  const v1::RegisterWorkerRequest self_;
};

}  // namespace buttress
