#include "coordinator/rpc/service.h"

#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"
#include "lib/rpc/channel.h"

namespace buttress {

namespace {

constexpr std::int64_t kToldEveryMs = 60000;

}  // namespace

using CallContext = grpc::CallbackServerContext;
using UnaryReactor = grpc::ServerUnaryReactor;

Status CoordinatorService::Admit(CallContext& context) const {
  if (starts_.own.empty()) return OkStatus();
  context.AddInitialMetadata(kStartKey, starts_.name());
  const auto& sent = context.client_metadata();
  const auto found = sent.find(kStartKey);
  if (found == sent.end() || starts_.Admits({found->second.data(), found->second.size()}))
    return OkStatus();
  LogRarely();
  return Unavailable(
      "another coordinator has answered this caller, which was started on a copy of this one's "
      "ledger: stop this one");
}

void CoordinatorService::LogRarely() const {
  const std::int64_t now_ms = RealClock().MonotonicMs();
  std::int64_t told_ms = told_ms_;
  if (now_ms < told_ms + kToldEveryMs || !told_ms_.compare_exchange_strong(told_ms, now_ms)) return;
  Log(kError, "another coordinator continues this run on a copy of this ledger; stop this one",
      {{"run_id", starts_.run_id}});
}

UnaryReactor* CoordinatorService::RegisterWorker(CallContext* context,
                                                 const v1::RegisterWorkerRequest* request,
                                                 v1::RegisterWorkerResponse* response) {
  return Unary(*context, "RegisterWorker", *request, *response);
}

UnaryReactor* CoordinatorService::Exchange(CallContext* context, const v1::ExchangeRequest* request,
                                           v1::ExchangeResponse* response) {
  return Unary(*context, "Exchange", *request, *response);
}

UnaryReactor* CoordinatorService::RegisterLearner(CallContext* context,
                                                  const v1::RegisterLearnerRequest* request,
                                                  v1::RegisterLearnerResponse* response) {
  return Unary(*context, "RegisterLearner", *request, *response);
}

UnaryReactor* CoordinatorService::PlanBatch(CallContext* context,
                                            const v1::PlanBatchRequest* request,
                                            v1::PlanBatchResponse* response) {
  return Unary(*context, "PlanBatch", *request, *response);
}

UnaryReactor* CoordinatorService::Commit(CallContext* context, const v1::CommitRequest* request,
                                         v1::CommitResponse* response) {
  return Unary(*context, "Commit", *request, *response);
}

UnaryReactor* CoordinatorService::AnnounceWeights(CallContext* context,
                                                  const v1::AnnounceWeightsRequest* request,
                                                  v1::AnnounceWeightsResponse* response) {
  // A manifest names every tensor of the model, and takes more memory than its message.
  constexpr std::size_t kMaxManifestBytes = 8 * static_cast<std::size_t>(kMaxMessageBytes);
  return Unary(*context, "AnnounceWeights", *request, *response, kMaxManifestBytes);
}

UnaryReactor* CoordinatorService::Checkpointed(CallContext* context,
                                               const v1::CheckpointedRequest* request,
                                               v1::CheckpointedResponse* response) {
  return Unary(*context, "Checkpointed", *request, *response);
}

UnaryReactor* CoordinatorService::GetRunStatus(CallContext* context,
                                               const v1::GetRunStatusRequest* request,
                                               v1::GetRunStatusResponse* response) {
  return Unary(*context, "GetRunStatus", *request, *response);
}

UnaryReactor* CoordinatorService::OrderWorker(CallContext* context,
                                              const v1::OrderWorkerRequest* request,
                                              v1::OrderWorkerResponse* response) {
  return Unary(*context, "OrderWorker", *request, *response);
}

UnaryReactor* CoordinatorService::OrderMaxAge(CallContext* context,
                                              const v1::OrderMaxAgeRequest* request,
                                              v1::OrderMaxAgeResponse* response) {
  return Unary(*context, "OrderMaxAge", *request, *response);
}

UnaryReactor* CoordinatorService::StopRun(CallContext* context, const v1::StopRunRequest* request,
                                          v1::StopRunResponse* response) {
  return Unary(*context, "StopRun", *request, *response);
}

}  // namespace buttress
