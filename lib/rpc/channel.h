// The options of every gRPC channel and server, in one place; numbers and reasons: operations.md 3.1 and 3.2.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

namespace buttress {

// Message bound on both sides. Whatever may be larger travels in chunks.
inline constexpr int kMaxMessageBytes = 8 << 20;

// Chunk of a stream at most.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// A channel with keepalive, quick reconnection and no proxy. Connects when first used.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

// One listener a port, bounded messages and metadata, the clients' keepalive allowed.
void ApplyServerOptions(grpc::ServerBuilder& builder);

// "127.0.0.1:0" and the port that was bound give "127.0.0.1:41234"; a wildcard host becomes this machine's name, which others can reach.
std::string BoundAddress(const std::string& listen, int port);

}  // namespace buttress
