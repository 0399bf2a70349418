#include "tests/support/fakes/fake_coordinator.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>

#include "lib/base/os/clock.h"
#include "lib/base/report/check.h"
#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "tests/support/patience.h"

namespace buttress {
FakeCoordinator::FakeCoordinator() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  BUTTRESS_CHECK(server_ != nullptr && port != 0, "cannot listen on 127.0.0.1");
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeCoordinator::~FakeCoordinator() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakeCoordinator::Offer(v1::Lease lease) {
  MutexLock lock(mutex_);
  offered_.push_back(std::move(lease));
  changed_.NotifyAll();
}

void FakeCoordinator::Revoke(const LeaseRef& key) {
  MutexLock lock(mutex_);
  revoked_.push_back(key);
  changed_.NotifyAll();
}

void FakeCoordinator::Announce(v1::WeightManifest manifest) {
  MutexLock lock(mutex_);
  weights_ = std::move(manifest);
  changed_.NotifyAll();
}

void FakeCoordinator::SetRunState(v1::RunState state) {
  MutexLock lock(mutex_);
  run_state_ = state;
  changed_.NotifyAll();
}

void FakeCoordinator::Forget() {
  MutexLock lock(mutex_);
  known_ = false;
  changed_.NotifyAll();
}

void FakeCoordinator::BecomeAnotherRun() {
  MutexLock lock(mutex_);
  run_id_ = "second-run";
  known_ = false;
  changed_.NotifyAll();
}

void FakeCoordinator::RefuseSubmissions(int count, grpc::StatusCode code) {
  MutexLock lock(mutex_);
  refuse_submissions_ = count;
  refusal_ = code;
}

void FakeCoordinator::RefuseRegistration(grpc::StatusCode code) {
  MutexLock lock(mutex_);
  registration_ = code;
}

void FakeCoordinator::SetOrder(v1::WorkerOrder order) {
  MutexLock lock(mutex_);
  order_ = order;
  changed_.NotifyAll();
}

bool FakeCoordinator::WaitUntil(const std::function<bool(const Seen&)>& holds) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience, [&]() REQUIRES(mutex_) { return holds(seen_); });
}

FakeCoordinator::Seen FakeCoordinator::seen() const {
  MutexLock lock(mutex_);
  return seen_;
}

grpc::Status FakeCoordinator::RegisterWorker(grpc::ServerContext*,
                                             const v1::RegisterWorkerRequest* request,
                                             v1::RegisterWorkerResponse* response) {
  MutexLock lock(mutex_);
  if (registration_ != grpc::StatusCode::OK) return {registration_, "told to refuse"};
  if (!request->run_id().empty() && request->run_id() != run_id_)
    return {grpc::StatusCode::ABORTED, "another run"};
  response->set_run_id(run_id_);
  response->set_start_id("start-of-" + run_id_);
  response->set_coordinator_epoch(static_cast<std::uint64_t>(++seen_.registrations));
  known_ = true;
  changed_.NotifyAll();
  return grpc::Status::OK;
}

bool FakeCoordinator::HasNews(const v1::ExchangeRequest& request) const {
  const bool newer_weights =
      weights_.has_version() && weights_.version().step() > request.loaded_version().step();
  return (request.capacity() > 0 && !offered_.empty()) || !revoked_.empty() || newer_weights ||
         !known_ || run_state_ != v1::RUN_STATE_RUNNING || order_ == v1::WORKER_ORDER_DRAIN;
}

grpc::Status FakeCoordinator::Exchange(grpc::ServerContext*, const v1::ExchangeRequest* request,
                                       v1::ExchangeResponse* response) {
  MutexLock lock(mutex_);
  if (known_) {
    seen_.last = *request;
    if (answered_ms_ > 0)
      seen_.longest_pause_ms =
          std::max(seen_.longest_pause_ms, RealClock().MonotonicMs() - answered_ms_);
    for (const v1::LeaseRef& ref : request->finished()) ++seen_.finished[FromProto(ref)];
    for (const v1::ReturnedLease& returned : request->returned())
      seen_.returned[FromProto(returned.ref())] = returned.reason();
    changed_.NotifyAll();
  }
  changed_.WaitFor(mutex_, std::chrono::milliseconds(request->wait_ms()),
                   [&]() REQUIRES(mutex_) { return HasNews(*request); });
  if (!known_) return {grpc::StatusCode::NOT_FOUND, "register first"};
  if (request->run_id() != run_id_) return {grpc::StatusCode::ABORTED, "another run"};
  for (std::uint32_t i = 0; i < request->capacity() && !offered_.empty(); ++i) {
    *response->add_leases() = offered_.front();
    offered_.pop_front();
  }
  for (const LeaseRef& key : std::exchange(revoked_, {})) *response->add_revoked() = ToProto(key);
  if (weights_.has_version() && weights_.version().step() > request->loaded_version().step())
    *response->mutable_weights() = weights_;
  response->set_run_state(run_state_);
  response->set_order(order_);
  answered_ms_ = RealClock().MonotonicMs();
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::SubmitGroups(grpc::ServerContext*,
                                           grpc::ServerReader<v1::SubmitGroupsRequest>* stream,
                                           v1::SubmitGroupsResponse* response) {
  v1::SubmitGroupsRequest message;
  v1::SubmitHeader header;
  std::string bytes;
  while (stream->Read(&message)) {
    if (message.has_header()) header = message.header();
    bytes += message.data();
  }
  return Take(header, bytes, *response);
}

grpc::Status FakeCoordinator::Take(const v1::SubmitHeader& header, const std::string& bytes,
                                   v1::SubmitGroupsResponse& response) {
  MutexLock lock(mutex_);
  if (refuse_submissions_ > 0) {
    --refuse_submissions_;
    return {refusal_, "told to refuse"};
  }
  const Result<v1::Group> group = DecodeGroup(bytes);
  if (!group.ok() || Sha256Of(bytes) != header.content_sha256() ||
      bytes.size() != header.total_bytes()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, group.status().ToString()};
  }
  const bool fresh = seen_.accepted.emplace(FromProto(header.lease()), *group).second;
  response.set_result(fresh ? v1::SUBMIT_RESULT_ACCEPTED : v1::SUBMIT_RESULT_DUPLICATE);
  changed_.NotifyAll();
  return grpc::Status::OK;
}

}  // namespace buttress
