// The coordinator as workers and learners see it: one blocking call per RPC of
// proto/buttress/v1/coordinator.proto.
//
// Every attempt has a deadline. UNAVAILABLE and DEADLINE_EXCEEDED are tried again with backoff
// (lib/base/retry.h) until `give_up_after_ms` has passed: a coordinator that restarts is not
// noticed, for every call is safe to repeat. Any other failure is returned at once. Once
// ShutdownRequested(), a long poll in flight ends with kCancelled, and each later call is tried
// once; so it is once CheckpointRequested().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/credentials.h"
#include "lib/base/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/codec.h"
#include "lib/experience/types.h"

namespace buttress {

struct CoordinatorClientOptions {
  // host:port; empty: read from address_file.
  std::string address;
  // <out>/coordinator.address; read again before every connection, for the port may change.
  std::string address_file;
  // Of trying again, for one call.
  std::int64_t give_up_after_ms = 120000;
  Credentials credentials = {};
};

// local.coordinator.advertise, else the file that the coordinator writes.
CoordinatorClientOptions CoordinatorClientOptionsFrom(const LocalSettings& local,
                                                      const Credentials& credentials = {});

// A serialized group as it is submitted; made once, so that a repeated submission has the same
// digest.
struct EncodedGroup {
  std::string bytes;
  std::string sha256;  // 32 bytes

  static EncodedGroup Of(const Group& group);
};

// Thread-safe; blocks the calling thread only. Every method may give kUnavailable or
// kDeadlineExceeded (given up), kCancelled (shutdown), kFailedPrecondition (another configuration;
// an old learner epoch: leave), kNotFound (unknown worker: register again).
class CoordinatorClient {
 public:
  explicit CoordinatorClient(CoordinatorClientOptions options);
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  Result<v1::RegisterWorkerResponse> RegisterWorker(const v1::RegisterWorkerRequest& request);

  // Held by the coordinator up to request.wait_ms.
  Result<v1::ExchangeResponse> Exchange(const v1::ExchangeRequest& request);

  // Over a call that stays open for the next group; as many are open as threads submit at once.
  // `incarnation` as registered. kInvalidArgument: the group is malformed and will never be taken.
  Result<v1::SubmitResult> SubmitGroup(const std::string& worker_id, std::uint64_t incarnation,
                                       const v1::LeaseRef& lease, const EncodedGroup& group);

  Result<v1::RegisterLearnerResponse> RegisterLearner(const v1::RegisterLearnerRequest& request);

  // Held by the coordinator up to request.wait_ms; a response without a plan means: ask again.
  Result<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request);

  // The groups of request.group_ids in that order, decoded and checked (kDataLoss if a payload is
  // not what was asked for).
  Result<std::vector<Group>> FetchGroups(const v1::FetchGroupsRequest& request);

  Status Commit(const v1::CommitRequest& request);
  Status AnnounceWeights(const v1::AnnounceWeightsRequest& request);
  Status Checkpointed(const v1::CheckpointedRequest& request);
  Result<v1::GetRunStatusResponse> GetRunStatus();

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace buttress
