// The options of every gRPC channel and server, in one place; numbers and reasons: operations.md
// 3.1 and 3.2.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "lib/base/credentials.h"

namespace buttress {

// Message bound on both sides. Whatever may be larger travels in chunks.
inline constexpr int kMaxMessageBytes = 8 << 20;

// Chunk of a stream at most.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// A channel with keepalive, quick reconnection and no proxy. Connects when first used. With
// credentials it shows certificate and token, and wants a certificate of the same authority that
// names `address`.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials = {});

// For ServerBuilder::AddListeningPort. With credentials every call needs a client certificate of
// the same authority and the token (UNAUTHENTICATED); without them it is plain text.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const Credentials& credentials);

// One listener a port, bounded messages and metadata, the clients' keepalive allowed.
void ApplyServerOptions(grpc::ServerBuilder& builder);

}  // namespace buttress
