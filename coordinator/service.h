// The gRPC side of the coordinator: calls become commands of the loop, which answers them. No handler waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/coordinator_loop.h"
#include "coordinator/coordinator_metrics.h"
#include "lib/base/sync.h"
#include "lib/ledger/payload_store.h"
#include "lib/rl/wire.h"

namespace buttress {

// Bytes of a submitted group at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// Bytes of groups that are being received or written, together and from one worker.
class SubmitBudget {
 public:
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kWorkerBytes = kMaxGroupBytes;

  // False if it is spent.
  bool Take(const std::string& worker_id, std::uint64_t bytes);
  void GiveBack(const std::string& worker_id, std::uint64_t bytes);

 private:
  Mutex mutex_;
  std::uint64_t total_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> by_worker_ GUARDED_BY(mutex_);
};

// Thread-safe. `loop` and `payloads` outlive the server that it is registered with.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  CoordinatorService(CoordinatorLoop& loop,
                     const PayloadStore& payloads,
                     CoordinatorMetrics& metrics,
                     GroupLimits limits)
      : loop_(loop), payloads_(payloads), metrics_(metrics), limits_(limits) {}

  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext* context,
                                           const v1::RegisterWorkerRequest* request,
                                           v1::RegisterWorkerResponse* response) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const v1::ExchangeRequest* request,
                                     v1::ExchangeResponse* response) override;
  grpc::ServerReadReactor<v1::SubmitGroupRequest>* SubmitGroup(
      grpc::CallbackServerContext* context, v1::SubmitGroupResponse* response) override;
  grpc::ServerUnaryReactor* RegisterLearner(grpc::CallbackServerContext* context,
                                            const v1::RegisterLearnerRequest* request,
                                            v1::RegisterLearnerResponse* response) override;
  grpc::ServerUnaryReactor* PlanBatch(grpc::CallbackServerContext* context,
                                      const v1::PlanBatchRequest* request,
                                      v1::PlanBatchResponse* response) override;
  grpc::ServerWriteReactor<v1::FetchGroupsResponse>* FetchGroups(
      grpc::CallbackServerContext* context, const v1::FetchGroupsRequest* request) override;
  grpc::ServerUnaryReactor* Commit(grpc::CallbackServerContext* context,
                                   const v1::CommitRequest* request,
                                   v1::CommitResponse* response) override;
  grpc::ServerUnaryReactor* AnnounceWeights(grpc::CallbackServerContext* context,
                                            const v1::AnnounceWeightsRequest* request,
                                            v1::AnnounceWeightsResponse* response) override;
  grpc::ServerUnaryReactor* Checkpointed(grpc::CallbackServerContext* context,
                                         const v1::CheckpointedRequest* request,
                                         v1::CheckpointedResponse* response) override;
  grpc::ServerUnaryReactor* GetRunStatus(grpc::CallbackServerContext* context,
                                         const v1::GetRunStatusRequest* request,
                                         v1::GetRunStatusResponse* response) override;

 private:
  CoordinatorLoop& loop_;
  const PayloadStore& payloads_;
  CoordinatorMetrics& metrics_;
  const GroupLimits limits_;
  SubmitBudget budget_;
};

}  // namespace buttress
