// The gRPC side of the coordinator: calls become commands of the loop, which answers them. No
// handler waits.
#pragma once

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/coordinator_loop.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/submit_budget.h"
#include "coordinator/submit_stream.h"
#include "lib/experience/codec.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// Thread-safe. `loop` and `payloads` outlive the server that it is registered with.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  CoordinatorService(CoordinatorLoop& loop, const PayloadStore& payloads,
                     CoordinatorMetrics& metrics, GroupLimits limits)
      : loop_(loop), payloads_(payloads), metrics_(metrics), limits_(limits) {}

  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext* context,
                                           const v1::RegisterWorkerRequest* request,
                                           v1::RegisterWorkerResponse* response) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const v1::ExchangeRequest* request,
                                     v1::ExchangeResponse* response) override;
  grpc::ServerBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse>* SubmitGroups(
      grpc::CallbackServerContext* context) override;
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

  // Ends the calls that no answer of the loop would end.
  void EndStreams() { streams_.End(); }

 private:
  CoordinatorLoop& loop_;
  const PayloadStore& payloads_;
  CoordinatorMetrics& metrics_;
  const GroupLimits limits_;
  SubmitBudget budget_;
  SubmitStreams streams_;
};

}  // namespace buttress
