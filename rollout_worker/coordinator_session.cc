#include "rollout_worker/coordinator_session.h"

#include "lib/base/log.h"
#include "lib/experience/codec.h"

namespace buttress {

Status CoordinatorSession::Register() {
  const Result<v1::RegisterWorkerResponse> response = client_.RegisterWorker(self_);
  if (response.status().code() == StatusCode::kFailedPrecondition)
    return InvalidArgument(response.status().message());
  if (!response.ok()) return response.status();
  Log(kInfo, "registered",
      {{"run", response->run_name()}, {"coordinator_epoch", response->coordinator_epoch()}});
  return OkStatus();
}

Result<v1::ExchangeResponse> CoordinatorSession::Exchange(v1::ExchangeRequest request) {
  request.set_worker_id(self_.worker_id());
  request.set_incarnation(self_.incarnation());
  Result<v1::ExchangeResponse> response = client_.Exchange(request);
  if (response.status().code() != StatusCode::kNotFound) return response;
  BUTTRESS_RETURN_IF_ERROR(Register());
  return client_.Exchange(request);
}

Result<v1::SubmitResult> CoordinatorSession::Submit(const LeaseRef& ref,
                                                    const EncodedGroup& group) {
  Result<v1::SubmitResult> result =
      client_.SubmitGroup(self_.worker_id(), self_.incarnation(), ToProto(ref), group);
  if (result.status().code() != StatusCode::kNotFound) return result;
  BUTTRESS_RETURN_IF_ERROR(Register());
  return client_.SubmitGroup(self_.worker_id(), self_.incarnation(), ToProto(ref), group);
}

}  // namespace buttress
