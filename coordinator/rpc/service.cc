#include "coordinator/rpc/service.h"

#include "lib/rpc/channel.h"

namespace buttress {

using CallContext = grpc::CallbackServerContext;
using UnaryReactor = grpc::ServerUnaryReactor;

Status CoordinatorService::Admit(CallContext& context, const std::string& run_id) const {
  if (starts_.own.empty()) return OkStatus();
  context.AddInitialMetadata(kStartKey, starts_.own);
  const auto& sent = context.client_metadata();
  const auto start = sent.find(kStartKey);
  if (start == sent.end() || run_id != starts_.run_id) return OkStatus();
  const std::string named(start->second.data(), start->second.size());
  if (starts_.all.contains(named)) return OkStatus();
  return Unavailable(
      "another coordinator has answered this learner, which was started on a copy of this one's "
      "ledger: stop this one");
}

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

UnaryReactor* CoordinatorService::PlanBatch(CallContext* context,
                                            const v1::PlanBatchRequest* request,
                                            v1::PlanBatchResponse* response) {
  return Unary("PlanBatch", *request, *response, kMaxRequestBytes,
               Admit(*context, request->run_id()));
}

UnaryReactor* CoordinatorService::Commit(CallContext* context, const v1::CommitRequest* request,
                                         v1::CommitResponse* response) {
  return Unary("Commit", *request, *response, kMaxRequestBytes, Admit(*context, request->run_id()));
}

UnaryReactor* CoordinatorService::AnnounceWeights(CallContext* context,
                                                  const v1::AnnounceWeightsRequest* request,
                                                  v1::AnnounceWeightsResponse* response) {
  // A manifest names every tensor of the model, and takes more memory than its message.
  constexpr std::size_t kMaxManifestBytes = 8 * static_cast<std::size_t>(kMaxMessageBytes);
  return Unary("AnnounceWeights", *request, *response, kMaxManifestBytes,
               Admit(*context, request->run_id()));
}

UnaryReactor* CoordinatorService::Checkpointed(CallContext* context,
                                               const v1::CheckpointedRequest* request,
                                               v1::CheckpointedResponse* response) {
  return Unary("Checkpointed", *request, *response, kMaxRequestBytes,
               Admit(*context, request->run_id()));
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
