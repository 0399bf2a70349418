#include "coordinator/rpc/service.h"

#include "lib/rpc/channel.h"

namespace buttress {

using CallContext = grpc::CallbackServerContext;
using UnaryReactor = grpc::ServerUnaryReactor;

UnaryReactor* CoordinatorService::RegisterWorker(CallContext*,
                                                 const v1::RegisterWorkerRequest* request,
                                                 v1::RegisterWorkerResponse* response) {
  return Unary("RegisterWorker", *request, *response);
}

UnaryReactor* CoordinatorService::Exchange(CallContext*, const v1::ExchangeRequest* request,
                                           v1::ExchangeResponse* response) {
  return Unary("Exchange", *request, *response);
}

UnaryReactor* CoordinatorService::RegisterLearner(CallContext*,
                                                  const v1::RegisterLearnerRequest* request,
                                                  v1::RegisterLearnerResponse* response) {
  return Unary("RegisterLearner", *request, *response);
}

UnaryReactor* CoordinatorService::PlanBatch(CallContext*, const v1::PlanBatchRequest* request,
                                            v1::PlanBatchResponse* response) {
  return Unary("PlanBatch", *request, *response);
}

UnaryReactor* CoordinatorService::Commit(CallContext*, const v1::CommitRequest* request,
                                         v1::CommitResponse* response) {
  return Unary("Commit", *request, *response);
}

UnaryReactor* CoordinatorService::AnnounceWeights(CallContext*,
                                                  const v1::AnnounceWeightsRequest* request,
                                                  v1::AnnounceWeightsResponse* response) {
  // A manifest names every tensor of the model, and takes more memory than its message.
  constexpr std::size_t kMaxManifestBytes = 8 * static_cast<std::size_t>(kMaxMessageBytes);
  return Unary("AnnounceWeights", *request, *response, kMaxManifestBytes);
}

UnaryReactor* CoordinatorService::Checkpointed(CallContext*, const v1::CheckpointedRequest* request,
                                               v1::CheckpointedResponse* response) {
  return Unary("Checkpointed", *request, *response);
}

UnaryReactor* CoordinatorService::GetRunStatus(CallContext*, const v1::GetRunStatusRequest* request,
                                               v1::GetRunStatusResponse* response) {
  return Unary("GetRunStatus", *request, *response);
}

UnaryReactor* CoordinatorService::OrderWorker(CallContext*, const v1::OrderWorkerRequest* request,
                                              v1::OrderWorkerResponse* response) {
  return Unary("OrderWorker", *request, *response);
}

UnaryReactor* CoordinatorService::OrderMaxAge(CallContext*, const v1::OrderMaxAgeRequest* request,
                                              v1::OrderMaxAgeResponse* response) {
  return Unary("OrderMaxAge", *request, *response);
}

UnaryReactor* CoordinatorService::StopRun(CallContext*, const v1::StopRunRequest* request,
                                          v1::StopRunResponse* response) {
  return Unary("StopRun", *request, *response);
}

}  // namespace buttress
