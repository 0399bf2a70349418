#include "coordinator/service.h"

#include "coordinator/call.h"
#include "coordinator/fetch_call.h"
#include "coordinator/requests.h"

namespace buttress {
namespace {

class UnaryCall final : public Call<grpc::ServerUnaryReactor> {
 public:
  UnaryCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, std::string_view method,
            Apply apply, LongPoll poll = {})
      : Call(loop, metrics, method) {
    Post(
        std::move(apply), [this](const Status& status) { Answer(status); }, std::move(poll));
  }
};

}  // namespace

grpc::ServerUnaryReactor* CoordinatorService::RegisterWorker(
    grpc::CallbackServerContext*, const v1::RegisterWorkerRequest* request,
    v1::RegisterWorkerResponse* response) {
  return new UnaryCall(loop_, metrics_, "RegisterWorker", [request, response](Turn& turn, bool) {
    return buttress::RegisterWorker(turn, *request, *response);
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Exchange(grpc::CallbackServerContext*,
                                                       const v1::ExchangeRequest* request,
                                                       v1::ExchangeResponse* response) {
  return new UnaryCall(loop_, metrics_, "Exchange",
                       [request, response](Turn& turn, bool last) {
                         return buttress::Exchange(turn, last, *request, *response);
                       },
                       {request->wait_ms(), MayBringWork});
}

grpc::ServerBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse>*
CoordinatorService::SubmitGroups(grpc::CallbackServerContext*) {
  return new SubmitStream(loop_, metrics_, budget_, limits_, streams_);
}

grpc::ServerUnaryReactor* CoordinatorService::RegisterLearner(
    grpc::CallbackServerContext*, const v1::RegisterLearnerRequest* request,
    v1::RegisterLearnerResponse* response) {
  return new UnaryCall(loop_, metrics_, "RegisterLearner", [request, response](Turn& turn, bool) {
    return buttress::RegisterLearner(turn, *request, *response);
  });
}

grpc::ServerUnaryReactor* CoordinatorService::PlanBatch(grpc::CallbackServerContext*,
                                                        const v1::PlanBatchRequest* request,
                                                        v1::PlanBatchResponse* response) {
  return new UnaryCall(loop_, metrics_, "PlanBatch",
                       [request, response](Turn& turn, bool last) {
                         return buttress::PlanBatch(turn, last, *request, *response);
                       },
                       {request->wait_ms(), MayFillBatch});
}

grpc::ServerWriteReactor<v1::FetchGroupsResponse>* CoordinatorService::FetchGroups(
    grpc::CallbackServerContext*, const v1::FetchGroupsRequest* request) {
  return new FetchCall(loop_, metrics_, payloads_, *request);
}

grpc::ServerUnaryReactor* CoordinatorService::Commit(grpc::CallbackServerContext*,
                                                     const v1::CommitRequest* request,
                                                     v1::CommitResponse*) {
  return new UnaryCall(loop_, metrics_, "Commit",
                       [request](Turn& turn, bool) { return buttress::Commit(turn, *request); });
}

grpc::ServerUnaryReactor* CoordinatorService::AnnounceWeights(
    grpc::CallbackServerContext*, const v1::AnnounceWeightsRequest* request,
    v1::AnnounceWeightsResponse*) {
  return new UnaryCall(loop_, metrics_, "AnnounceWeights", [request](Turn& turn, bool) {
    return buttress::AnnounceWeights(turn, *request);
  });
}

grpc::ServerUnaryReactor* CoordinatorService::Checkpointed(grpc::CallbackServerContext*,
                                                           const v1::CheckpointedRequest* request,
                                                           v1::CheckpointedResponse*) {
  return new UnaryCall(loop_, metrics_, "Checkpointed", [request](Turn& turn, bool) {
    return buttress::Checkpointed(turn, *request);
  });
}

grpc::ServerUnaryReactor* CoordinatorService::GetRunStatus(grpc::CallbackServerContext*,
                                                           const v1::GetRunStatusRequest*,
                                                           v1::GetRunStatusResponse* response) {
  return new UnaryCall(loop_, metrics_, "GetRunStatus", [response](Turn& turn, bool) {
    return buttress::GetRunStatus(turn, *response);
  });
}

}  // namespace buttress
