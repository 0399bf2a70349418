// The registration of this worker: calls that the coordinator rejects because it does not know the
// worker are repeated after registering.
#pragma once

#include <cstdint>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/lease.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {

// Who the worker is, and the run that it has joined. Its sessions share it. Thread-safe.
class WorkerRegistration {
 public:
  // `self.incarnation` is random per process; the coordinator drops the leases of an older one that
  // had the same `self.worker_secret`.
  explicit WorkerRegistration(v1::RegisterWorkerRequest self) : self_(std::move(self)) {}

  // Returns the request to register with, which names the registration before.
  v1::RegisterWorkerRequest request() const;

  void Joined(const v1::RegisterWorkerResponse& response);

  // Length of the run in steps. REQUIRES: Joined was called.
  std::int64_t steps() const;

  // Rises with every start of the coordinator. REQUIRES: Joined was called.
  std::uint64_t coordinator_epoch() const;

 private:
  mutable Mutex mutex_;
  v1::RegisterWorkerRequest self_ GUARDED_BY(mutex_);
  std::int64_t steps_ GUARDED_BY(mutex_) = -1;
  std::uint64_t coordinator_epoch_ GUARDED_BY(mutex_) = 0;
};

// Thread-safe. REQUIRES: `client`, which retries transient failures, and `self` outlive it.
class CoordinatorSession {
 public:
  CoordinatorSession(CoordinatorClient& client, WorkerRegistration& self)
      : client_(client), self_(self) {}

  // kInvalidArgument if the coordinator runs another configuration. kAborted if it has another run,
  // or an older copy of the ledger, than the one that the worker has joined: weights and groups of
  // this process are of no use to it.
  Status Register();

  // Length of the run in steps. REQUIRES: Register returned OK.
  std::int64_t steps() const { return self_.steps(); }

  // Of the coordinator that the worker last registered with. REQUIRES: as steps.
  std::uint64_t coordinator_epoch() const { return self_.coordinator_epoch(); }

  // Fills in who calls: worker_id, incarnation, run_id and worker_secret. kAborted as Register.
  Result<v1::ExchangeResponse> Exchange(v1::ExchangeRequest request);

  Result<v1::SubmitResult> Submit(const LeaseRef& ref, const EncodedGroup& group);

 private:
  CoordinatorClient& client_;
  WorkerRegistration& self_;
};

}  // namespace buttress
