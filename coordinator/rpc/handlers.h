// The coordinator's calls as functions of a turn, without gRPC (service.h) and without a thread:
// what a call reads and changes, and what it answers.
//
//   worker_rpcs.cc    RegisterWorker, Exchange (arriving_group.h has SubmitGroups)
//   learner_rpcs.cc   RegisterLearner, PlanBatch, Commit, AnnounceWeights, Checkpointed
//                     (plan_reader.h has FetchGroups)
//   operator_rpcs.cc  GetRunStatus, OrderWorker, OrderMaxAge, StopRun
//
// Apply applies a call. A long poll returns nullopt while it has no answer, unless `last`, and is
// applied again in a turn that has what it awaits (TermsOf). `response` may hold an earlier try.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/loop/turn.h"
#include "lib/base/report/status.h"

namespace buttress {

std::optional<Status> Apply(Turn& turn, const v1::RegisterWorkerRequest& request,
                            v1::RegisterWorkerResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::ExchangeRequest& request,
                            v1::ExchangeResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::RegisterLearnerRequest& request,
                            v1::RegisterLearnerResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::PlanBatchRequest& request,
                            v1::PlanBatchResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::CommitRequest& request,
                            v1::CommitResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::AnnounceWeightsRequest& request,
                            v1::AnnounceWeightsResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::CheckpointedRequest& request,
                            v1::CheckpointedResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::OrderWorkerRequest& request,
                            v1::OrderWorkerResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::OrderMaxAgeRequest& request,
                            v1::OrderMaxAgeResponse& response, bool last);
std::optional<Status> Apply(Turn& turn, const v1::StopRunRequest& request,
                            v1::StopRunResponse& response, bool last);

// Returns how the loop treats a call, but for its bytes.
template <class Request>
RequestTerms TermsOf(const Request&) {
  return {};
}

RequestTerms TermsOf(const v1::ExchangeRequest& request);
RequestTerms TermsOf(const v1::PlanBatchRequest& request);
RequestTerms TermsOf(const v1::GetRunStatusRequest& request);
RequestTerms TermsOf(const v1::StopRunRequest& request);

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
