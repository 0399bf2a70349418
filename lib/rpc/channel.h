// The options of every gRPC channel and server.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/net/credentials.h"

namespace buttress {

// The metadata of calls and answers that name a run and a start of its coordinator: the one that
// answers, and the one that has answered the caller last. A coordinator whose ledger does not know
// the latter is behind another one, which was started on a copy of the ledger.
inline constexpr char kStartKey[] = "buttress-start";

// The size limit of a request. Larger data is sent in chunks.
inline constexpr int kMaxMessageBytes = 8 << 20;

// The size limit of a response: a plan, or leases with their rows.
inline constexpr int kMaxResponseBytes = 64 << 20;

// The size limit of the reason with which the learner ends a run, in UTF-8.
inline constexpr std::size_t kMaxEndReasonBytes = 4096;

// The size limit of a chunk of a stream.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// The longest time from the start of a submitted group to its answer: the deadline of SubmitGroups.
inline constexpr std::chrono::seconds kGroupTime(30);

// The calls of one connection at once. A process has one connection for each of its tasks.
inline constexpr int kMaxStreams = 128;

// Returns a channel with keepalive, quick reconnection and no proxy, which connects on first use.
// With credentials it presents certificate and token, and requires a server certificate of the same
// authority that names `address`; new connections read files that were replaced
// (CertificateFiles). While a token file changes it sends the tokens of before and
// after, so that the two sides need not change at one moment.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials = {});

// Returns the argument of ServerBuilder::AddListeningPort. With credentials every call needs a
// client certificate of the same authority and an admitted token, otherwise it fails with
// UNAUTHENTICATED, and the token of a role that may make it (the table in channel.cc), otherwise it
// fails with PERMISSION_DENIED. Without credentials calls are plain text.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const Credentials& credentials);

// Allows one listener per port, bounds messages, metadata, calls per connection and the memory of
// all connections, and permits the keepalive of MakeChannel.
void ApplyServerOptions(grpc::ServerBuilder& builder);

}  // namespace buttress
