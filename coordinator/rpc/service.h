// The gRPC service of the coordinator. Each RPC is one function, which reads from top to bottom:
//
//   worker_rpcs.cc    RegisterWorker, Exchange
//   submit_groups.cc  SubmitGroups
//   learner_rpcs.cc   RegisterLearner, PlanBatch, Commit, AnnounceWeights, Checkpointed
//   fetch_groups.cc   FetchGroups
//   operator_rpcs.cc  GetRunStatus, OrderWorker, OrderMaxAge, StopRun
//
// The handler inside the function runs on the loop's thread; gRPC's threads never wait for it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/coordinator_loop.h"
#include "coordinator/loop/quota.h"
#include "coordinator/rpc/call.h"
#include "lib/experience/codec.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// The size of a submitted group in bytes, at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// The size of all groups that are arriving or wait for the loop, at most.
inline constexpr std::uint64_t kMostArrivingBytes = std::uint64_t{1} << 30;

// Thread-safe. `loop` and `payloads` outlive the server that the service is registered with.
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

 private:
  // Answers a call with the status of `handler`, once what it changed is durable.
  grpc::ServerUnaryReactor* Handle(const UnaryCall::Options& options,
                                   const google::protobuf::Message& request,
                                   std::function<Status(Turn& turn)> handler) {
    return Poll(options, request,
                [handler = std::move(handler)](Turn& turn, bool) { return handler(turn); });
  }

  // Answers a long poll. `handler` returns nullopt while it has no answer, unless `last`; it runs
  // again in a turn that has what is awaited.
  grpc::ServerUnaryReactor* Poll(const UnaryCall::Options& options,
                                 const google::protobuf::Message& request,
                                 UnaryCall::Handler handler) {
    return new UnaryCall(loop_, metrics_, request, options, std::move(handler));
  }

  CoordinatorLoop& loop_;
  const PayloadStore& payloads_;
  CoordinatorMetrics& metrics_;
  const GroupLimits limits_;
  Quota arriving_{kMostCalls, kMostArrivingBytes};  // groups
};

// The state of the run as calls report it.
v1::RunState RunStateOf(const Turn& turn);

// Fills in the answer of GetRunStatus.
void FillRunStatus(const Turn& turn, v1::GetRunStatusResponse& response);

inline constexpr std::size_t kMaxNameBytes = 256;

// Checks the form of a name in a request (an id, an address), which the log shows: bounded, without
// white space and control characters. May be empty.
bool IsPlainName(const std::string& text);

// Checks the run that a worker's call names. kNotFound if it names none: the worker must register.
// kAborted if it is another run: the worker drops what it holds and starts anew.
Status CheckWorkerRun(const Turn& turn, const std::string& run_id);

// Checks the run that a learner's call names.
Status CheckLearnerRun(const Turn& turn, const std::string& run_id);

// Checks run, epoch and secret of a learner's call.
template <class Request>
Status CheckLearnerCall(const Turn& turn, const Request& request) {
  BUTTRESS_RETURN_IF_ERROR(CheckLearnerRun(turn, request.run_id()));
  return turn.scheduler.CheckLearner(request.learner_epoch(), request.learner_secret());
}

// Counts calls of a learner that another learner has replaced, and returns `status`.
Status CountFenced(const Turn& turn, Status status);

// SHA-256 of the tokens.
std::string PromptDigest(std::span<const std::int32_t> token_ids);

// Returns the sampling of a group. Each draw of a prompt has a seed of its own, which is the same
// for every worker and every lease of it; completion i is sampled with MixSeed(seed, i).
SamplingParams SamplingOf(const RunTerms& terms, const DrawnPrompt& prompt);

}  // namespace buttress
