// The registration of this worker: calls that the coordinator rejects because it does not know the
// worker are repeated after registering.
#pragma once

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/status.h"
#include "lib/experience/lease.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {

// Thread-safe. REQUIRES: `client`, which retries transient failures, outlives it.
class CoordinatorSession {
 public:
  // `self.incarnation` is random per process; the coordinator drops the leases of an older one.
  CoordinatorSession(CoordinatorClient& client, v1::RegisterWorkerRequest self)
      : client_(client), self_(std::move(self)) {}

  // kInvalidArgument if the coordinator runs another configuration.
  Status Register();

  // Fills worker_id and incarnation of `request`.
  Result<v1::ExchangeResponse> Exchange(v1::ExchangeRequest request);

  Result<v1::SubmitResult> Submit(const LeaseRef& ref, const EncodedGroup& group);

 private:
  CoordinatorClient& client_;
  const v1::RegisterWorkerRequest self_;
};

}  // namespace buttress
