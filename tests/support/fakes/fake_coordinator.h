// The worker's side of the coordinator's service, in this process, by script: hands out the leases
// it is given, keeps what it is told.
#pragma once

#include <grpcpp/server.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/lease.h"
#include "lib/experience/types.h"

namespace buttress {

class FakeCoordinator : public v1::Coordinator::Service {
 public:
  // Listens on a free port of 127.0.0.1.
  FakeCoordinator();
  ~FakeCoordinator() override;

  std::string address() const { return address_; }

  // Leases that the next Exchanges hand out, as capacity allows; they stay leased until finished,
  // returned or revoked.
  void Offer(v1::Lease lease);
  void Revoke(const LeaseRef& key);
  void Announce(v1::WeightManifest manifest);
  void SetRunState(v1::RunState state);
  void SetOrder(v1::WorkerOrder order);
  // From now on the worker is unknown until it registers.
  void Forget();
  // From now on this is another run, which knows no worker.
  void BecomeAnotherRun();
  // The next `count` submissions get `code`.
  void RefuseSubmissions(int count, grpc::StatusCode code);
  void RefuseRegistration(grpc::StatusCode code);

  // What has come so far. WaitUntil waits at most kPatience for `holds`, which is called with the
  // lock held: use the fields of Seen.
  struct Seen {
    int registrations = 0;
    std::map<LeaseRef, v1::Group> accepted;
    std::map<LeaseRef, v1::ReturnReason> returned;
    std::map<LeaseRef, int> finished;
    v1::ExchangeRequest last;           // latest Exchange
    std::int64_t longest_pause_ms = 0;  // between an answer and the next Exchange
  };

  bool WaitUntil(const std::function<bool(const Seen&)>& holds);
  Seen seen() const;

  grpc::Status RegisterWorker(grpc::ServerContext*, const v1::RegisterWorkerRequest*,
                              v1::RegisterWorkerResponse*) override;
  grpc::Status Exchange(grpc::ServerContext*, const v1::ExchangeRequest*,
                        v1::ExchangeResponse*) override;
  grpc::Status SubmitGroups(grpc::ServerContext*,
                            grpc::ServerReader<v1::SubmitGroupsRequest>* stream,
                            v1::SubmitGroupsResponse* response) override;

 private:
  grpc::Status Take(const v1::SubmitHeader& header, const std::string& bytes,
                    v1::SubmitGroupsResponse& response);
  bool HasNews(const v1::ExchangeRequest& request) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  Seen seen_ GUARDED_BY(mutex_);
  std::deque<v1::Lease> offered_ GUARDED_BY(mutex_);
  std::vector<LeaseRef> revoked_ GUARDED_BY(mutex_);
  v1::WeightManifest weights_ GUARDED_BY(mutex_);
  v1::RunState run_state_ GUARDED_BY(mutex_) = v1::RUN_STATE_RUNNING;
  v1::WorkerOrder order_ GUARDED_BY(mutex_) = v1::WORKER_ORDER_NONE;
  bool known_ GUARDED_BY(mutex_) = false;
  std::int64_t answered_ms_ GUARDED_BY(mutex_) = 0;  // when the last Exchange was
  int refuse_submissions_ GUARDED_BY(mutex_) = 0;
  grpc::StatusCode refusal_ GUARDED_BY(mutex_) = grpc::StatusCode::OK;
  grpc::StatusCode registration_ GUARDED_BY(mutex_) = grpc::StatusCode::OK;
  std::string run_id_ GUARDED_BY(mutex_) = "first-run";
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace buttress
