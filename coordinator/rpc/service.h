// The gRPC service of the coordinator. handlers.h says what each call does; the handlers run on the
// loop's thread, for which gRPC's threads never wait. submit_groups.cc and fetch_groups.cc have the
// two calls that stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/coordinator_loop.h"
#include "coordinator/loop/quota.h"
#include "coordinator/rpc/arriving_group.h"
#include "coordinator/rpc/call.h"
#include "coordinator/rpc/known_starts.h"
#include "coordinator/standby/mirror.h"
#include "lib/experience/codec.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// The size of all groups that are arriving or wait for the loop, at most.
inline constexpr std::uint64_t kMostArrivingBytes = std::uint64_t{1} << 30;

// Thread-safe. `loop`, `payloads` and `mirror` outlive the server that the service is registered
// with.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  CoordinatorService(CoordinatorLoop& loop, const PayloadStore& payloads,
                     CoordinatorMetrics& metrics, GroupLimits limits, Mirror* mirror = nullptr,
                     KnownStarts starts = {})
      : loop_(loop),
        payloads_(payloads),
        metrics_(metrics),
        limits_(limits),
        mirror_(mirror),
        starts_(std::move(starts)) {}

  grpc::ServerUnaryReactor* RegisterWorker(grpc::CallbackServerContext* context,
                                           const v1::RegisterWorkerRequest* request,
                                           v1::RegisterWorkerResponse* response) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const v1::ExchangeRequest* request,
                                     v1::ExchangeResponse* response) override;
  grpc::ServerReadReactor<v1::SubmitGroupsRequest>* SubmitGroups(
      grpc::CallbackServerContext* context, v1::SubmitGroupsResponse* response) override;
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
  grpc::ServerUnaryReactor* OrderWorker(grpc::CallbackServerContext* context,
                                        const v1::OrderWorkerRequest* request,
                                        v1::OrderWorkerResponse* response) override;
  grpc::ServerUnaryReactor* OrderMaxAge(grpc::CallbackServerContext* context,
                                        const v1::OrderMaxAgeRequest* request,
                                        v1::OrderMaxAgeResponse* response) override;
  grpc::ServerUnaryReactor* StopRun(grpc::CallbackServerContext* context,
                                    const v1::StopRunRequest* request,
                                    v1::StopRunResponse* response) override;
  grpc::ServerBidiReactor<v1::FollowRequest, v1::FollowResponse>* Follow(
      grpc::CallbackServerContext* context) override;

 private:
  // Names this start to the caller. kUnavailable if it has been answered by a coordinator of this
  // run that the ledger does not know: it tries again, at another address.
  Status Admit(grpc::CallbackServerContext& context) const;
  void LogRarely() const;

  // Answers a call once what it changed is durable.
  template <class Request, class Response>
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext& context, std::string_view method,
                                  const Request& request, Response& response,
                                  std::size_t max_bytes = kMaxRequestBytes) {
    return new UnaryCall(loop_, metrics_, method, request, response, max_bytes, Admit(context));
  }

  CoordinatorLoop& loop_;
  const PayloadStore& payloads_;
  CoordinatorMetrics& metrics_;
  const GroupLimits limits_;
  Mirror* const mirror_;
  const KnownStarts starts_;
  mutable std::atomic<std::int64_t> told_ms_ = std::numeric_limits<std::int64_t>::min() / 2;
  Quota arriving_{kMostCalls, kMostArrivingBytes};  // groups
};

}  // namespace buttress
