#include "lib/rpc/channel.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>

namespace buttress {
namespace {

constexpr int kClientKeepaliveMs = 20000;
constexpr int kClientKeepaliveTimeoutMs = 10000;
constexpr int kServerKeepaliveMs = 30000;
constexpr int kShortestPingMs = 10000;
constexpr int kReconnectMs = 200;
// Covers TCP and TLS; a connection that loses packets needs seconds.
constexpr int kConnectMs = 5000;
constexpr int kLongestReconnectMs = 5000;
constexpr int kMaxMetadataBytes = 16 << 10;

// gRPC calls it at the start of every call, before our handlers.
class TokenCheck : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(Credentials credentials) : credentials_(std::move(credentials)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata*) override {
    constexpr char kHeader[] = "authorization";
    const auto sent = metadata.find(kHeader);
    if (sent == metadata.end() ||
        !credentials_.Admits({sent->second.data(), sent->second.size()})) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              "the token is missing or of another run; local.security.token_file must be the same "
              "on every machine"};
    }
    consumed->emplace(kHeader, std::string(sent->second.data(), sent->second.size()));
    return grpc::Status::OK;
  }

 private:
  const Credentials credentials_;
};

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const Credentials& credentials) {
  if (credentials.empty()) return grpc::InsecureChannelCredentials();
  return grpc::CompositeChannelCredentials(
      grpc::SslCredentials({credentials.ca, credentials.key, credentials.certificate}),
      grpc::AccessTokenCredentials(credentials.token));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kClientKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kClientKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  // This option bounds the attempt, not the pause before it.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  // A proxy from the environment does not know the addresses of this cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC's own retries ignore our deadlines; CoordinatorClient retries.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Otherwise channels to the same address share a connection, and a new channel inherits the
  // reconnection backoff of an earlier one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!credentials.name.empty()) arguments.SetSslTargetNameOverride(credentials.name);
  return grpc::CreateCustomChannel(address, MakeChannelCredentials(credentials), arguments);
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const Credentials& credentials) {
  if (credentials.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.ca;
  options.pem_key_cert_pairs = {{credentials.key, credentials.certificate}};
  auto made = grpc::SslServerCredentials(options);
  made->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(credentials));
  return made;
}

void ApplyServerOptions(grpc::ServerBuilder& builder) {
  // Debian's abseil checks the order of all locks of gRPC, under one global lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // By default two servers can listen on one port at once, and each receives half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingMs);
}

}  // namespace buttress
