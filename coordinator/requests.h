// What each RPC does to the scheduler: from the wire, through the state machine, to the wire.
// Called on the loop's thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/coordinator_loop.h"
#include "lib/base/status.h"

namespace buttress {

Status RegisterWorker(Turn& turn, const v1::RegisterWorkerRequest& request,
                      v1::RegisterWorkerResponse& response);

// Nothing while there is nothing to say; so with PlanBatch.
std::optional<Status> Exchange(Turn& turn, bool last, const v1::ExchangeRequest& request,
                               v1::ExchangeResponse& response);

// Whether an Exchange, or a PlanBatch, that had nothing to say may have something to say after
// these changes.
bool MayBringWork(const LedgerChanges& changes);
bool MayFillBatch(const LedgerChanges& changes);

// `bytes` is the serialized group, checked already.
Status SubmitGroup(Turn& turn, Submission& submission, const std::string& bytes,
                   v1::SubmitGroupsResponse& response);

Status RegisterLearner(Turn& turn, const v1::RegisterLearnerRequest& request,
                       v1::RegisterLearnerResponse& response);
std::optional<Status> PlanBatch(Turn& turn, bool last, const v1::PlanBatchRequest& request,
                                v1::PlanBatchResponse& response);

// Where the payloads lie; they are read outside the loop.
Status FetchGroups(Turn& turn, const v1::FetchGroupsRequest& request,
                   std::vector<PayloadRef>& refs);

Status Commit(Turn& turn, const v1::CommitRequest& request);
Status AnnounceWeights(Turn& turn, const v1::AnnounceWeightsRequest& request);
Status Checkpointed(Turn& turn, const v1::CheckpointedRequest& request);
Status GetRunStatus(Turn& turn, v1::GetRunStatusResponse& response);

}  // namespace buttress
