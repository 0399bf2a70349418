#include "rollout_worker/coordinator_session.h"

#include "lib/base/report/log.h"
#include "lib/experience/codec.h"

namespace buttress {

v1::RegisterWorkerRequest WorkerRegistration::request() const {
  MutexLock lock(mutex_);
  return self_;
}

void WorkerRegistration::Joined(const v1::RegisterWorkerResponse& response) {
  MutexLock lock(mutex_);
  self_.set_run_id(response.run_id());
  self_.set_start_id(response.start_id());
  steps_ = static_cast<std::int64_t>(response.steps());
  coordinator_epoch_ = response.coordinator_epoch();
}

std::int64_t WorkerRegistration::steps() const {
  MutexLock lock(mutex_);
  return steps_;
}

std::uint64_t WorkerRegistration::coordinator_epoch() const {
  MutexLock lock(mutex_);
  return coordinator_epoch_;
}

Status CoordinatorSession::Register() {
  const Result<v1::RegisterWorkerResponse> response = client_.RegisterWorker(self_.request());
  if (response.status().code() == StatusCode::kFailedPrecondition)
    return InvalidArgument(response.status().message());
  if (!response.ok()) return response.status();
  self_.Joined(*response);
  Log(kInfo, "registered",
      {{"run", response->run_name()},
       {"run_id", response->run_id()},
       {"coordinator_epoch", response->coordinator_epoch()}});
  return OkStatus();
}

Result<v1::ExchangeResponse> CoordinatorSession::Exchange(v1::ExchangeRequest request) {
  const auto call = [&] {
    const v1::RegisterWorkerRequest self = self_.request();
    request.set_worker_id(self.worker_id());
    request.set_incarnation(self.incarnation());
    request.set_run_id(self.run_id());
    request.set_worker_secret(self.worker_secret());
    return client_.Exchange(request);
  };
  Result<v1::ExchangeResponse> response = call();
  if (response.status().code() != StatusCode::kNotFound) return response;
  BUTTRESS_RETURN_IF_ERROR(Register());
  request.set_wait_ms(0);  // the worker has more to tell a coordinator that has forgotten it
  return call();
}

Result<v1::SubmitResult> CoordinatorSession::Submit(const LeaseRef& ref,
                                                    const EncodedGroup& group) {
  const auto call = [&] { return client_.SubmitGroup(self_.request(), ToProto(ref), group); };
  Result<v1::SubmitResult> result = call();
  if (result.status().code() != StatusCode::kNotFound) return result;
  BUTTRESS_RETURN_IF_ERROR(Register());
  return call();
}

}  // namespace buttress
