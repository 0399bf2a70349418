// Conversion between Status and grpc::Status. Their codes have the same numbers.
#pragma once

#include <grpcpp/support/status.h>

#include "lib/base/report/status.h"

namespace buttress {

inline grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

inline Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

}  // namespace buttress
