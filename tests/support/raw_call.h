// A gRPC call with any bytes, of messages that are serialized once or are none at all.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <string>

#include "lib/rpc/grpc_status.h"

namespace buttress {

inline grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

// Calls `method` with the bytes `request`, and returns the bytes of the response.
inline Result<std::string> CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                                   const std::string& method, const grpc::ByteBuffer& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  BUTTRESS_RETURN_IF_ERROR(FromGrpc(status));
  grpc::Slice bytes;
  BUTTRESS_RETURN_IF_ERROR(FromGrpc(response.DumpToSingleSlice(&bytes)));
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace buttress
