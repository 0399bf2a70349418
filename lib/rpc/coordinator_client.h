// The client of the coordinator: one blocking function per RPC of
// proto/buttress/v1/coordinator.proto.
//
// Every attempt has a deadline. The client retries UNAVAILABLE and DEADLINE_EXCEEDED with backoff
// (lib/base/net/retry.h) until `give_up_after_ms` has passed, so that callers do not notice a
// restart of the coordinator; every RPC may be repeated. Any other failure is returned at once.
// After ShutdownRequested() a long poll in flight ends with kCancelled. After ShutdownRequested()
// or CheckpointRequested() each call is attempted once.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "lib/experience/group.h"

namespace buttress {

// The start of the coordinator that has answered last (kStartKey in channel.h). Thread-safe.
class AnsweredStart {
 public:
  std::string Get() const;

  // Takes the start that has answered. Returns false for one that another has followed already:
  // what it says is no longer the run's.
  bool Accept(const std::string& start);

 private:
  mutable Mutex mutex_;
  std::string start_ GUARDED_BY(mutex_);
  std::set<std::string> before_ GUARDED_BY(mutex_);
};

struct CoordinatorClientOptions {
  // host:port, or several with commas between them: of a coordinator and of its standby, which
  // answers once it has been started as one. If empty, the client reads address_file.
  std::string address;
  // <out>/coordinator.address; the client reads it before every connection, because the port may
  // change.
  std::string address_file;
  // How long one call is retried; an answer that the coordinator is paused (run_state.h) begins the
  // time anew.
  std::int64_t give_up_after_ms = 120000;
  Credentials credentials = {};
  // Copies of the options share it: the clients of a process follow the same coordinator.
  std::shared_ptr<AnsweredStart> answered = std::make_shared<AnsweredStart>();
};

// Returns options with the address local.coordinator.advertise if it is set, and with the file that
// the coordinator writes.
CoordinatorClientOptions CoordinatorClientOptionsFrom(const LocalSettings& local,
                                                      const Credentials& credentials = {});

// A serialized group with its digest, which is the same for every submission of the group.
struct EncodedGroup {
  std::string bytes;
  std::string sha256;  // 32 bytes

  static EncodedGroup Of(const v1::Group& group);
};

// Thread-safe. Every function blocks the calling thread and may return kUnavailable or
// kDeadlineExceeded (retries exhausted), kCancelled (shutdown), kFailedPrecondition (the
// configuration differs, or the learner epoch is over and the process must exit) kNotFound (the
// worker is unknown and must register again) or kAborted (this is another run than the worker's).
class CoordinatorClient {
 public:
  explicit CoordinatorClient(CoordinatorClientOptions options);
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  Result<v1::RegisterWorkerResponse> RegisterWorker(const v1::RegisterWorkerRequest& request);

  // Long poll of up to request.wait_ms.
  Result<v1::ExchangeResponse> Exchange(const v1::ExchangeRequest& request);

  // Submits a group. `self` is what the worker has registered with, and its run.
  // kInvalidArgument if the group is malformed, so that repeating it is useless.
  Result<v1::SubmitResult> SubmitGroup(const v1::RegisterWorkerRequest& self,
                                       const v1::LeaseRef& lease, const EncodedGroup& group);

  Result<v1::RegisterLearnerResponse> RegisterLearner(const v1::RegisterLearnerRequest& request);

  // Long poll of up to request.wait_ms. After a response without a plan the caller asks again.
  Result<v1::PlanBatchResponse> PlanBatch(const v1::PlanBatchRequest& request);

  // Returns the groups of request.group_ids in that order; they were checked when they were
  // accepted. kDataLoss if a payload is not the requested group.
  Result<std::vector<v1::Group>> FetchGroups(const v1::FetchGroupsRequest& request);

  Status Commit(const v1::CommitRequest& request);
  Status AnnounceWeights(const v1::AnnounceWeightsRequest& request);
  Status Checkpointed(const v1::CheckpointedRequest& request);
  Result<v1::GetRunStatusResponse> GetRunStatus();

  // kNotFound, with the known ids, if there is no such worker.
  Result<v1::OrderWorkerResponse> OrderWorker(const v1::OrderWorkerRequest& request);
  Result<v1::OrderMaxAgeResponse> OrderMaxAge(const v1::OrderMaxAgeRequest& request);

  // Long poll of up to request.wait_ms for the checkpoint of the stop.
  Result<v1::StopRunResponse> StopRun(const v1::StopRunRequest& request);

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace buttress
