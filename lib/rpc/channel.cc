#include "lib/rpc/channel.h"

#include <absl/synchronization/mutex.h>
#include <fmt/core.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "lib/base/thread/sync.h"

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
// What the connections of a server may buffer, together.
constexpr std::size_t kMaxBufferedBytes = std::size_t{1} << 30;
// For TLS and the first frame; a connection that says nothing gives its descriptor back.
constexpr int kHandshakeMs = 20000;

constexpr char kTokenHeader[] = "authorization";

// The role that may make a call. A method that several roles may call has several rows.
struct Row {
  std::string_view path;
  Role role;
};

constexpr Row kRows[] = {
    {"/buttress.v1.Coordinator/RegisterWorker", Role::kWorker},
    {"/buttress.v1.Coordinator/Exchange", Role::kWorker},
    {"/buttress.v1.Coordinator/SubmitGroups", Role::kWorker},
    {"/buttress.v1.Weights/Fetch", Role::kWorker},
    {"/buttress.v1.Coordinator/RegisterLearner", Role::kLearner},
    {"/buttress.v1.Coordinator/PlanBatch", Role::kLearner},
    {"/buttress.v1.Coordinator/FetchGroups", Role::kLearner},
    {"/buttress.v1.Coordinator/Commit", Role::kLearner},
    {"/buttress.v1.Coordinator/AnnounceWeights", Role::kLearner},
    {"/buttress.v1.Coordinator/Checkpointed", Role::kLearner},
    {"/buttress.v1.Coordinator/OrderWorker", Role::kOperator},
    {"/buttress.v1.Coordinator/OrderMaxAge", Role::kOperator},
    {"/buttress.v1.Coordinator/StopRun", Role::kOperator},
    {"/buttress.v1.Coordinator/Follow", Role::kOperator},
    {"/buttress.v1.Coordinator/GetRunStatus", Role::kOperator},
    {"/buttress.v1.Coordinator/GetRunStatus", Role::kMonitor},
};

constexpr std::string_view kOwnServices = "/buttress.";

// Returns whether `role` may call the method at `path`. A method of this project that has no row is
// refused to all; other services (health) are open to every role.
bool MayCall(Role role, std::string_view path) {
  return !path.starts_with(kOwnServices) || std::ranges::any_of(kRows, [&](const Row& row) {
    return row.path == path && row.role == role;
  });
}

// Returns the roles that may call it: "learner", "operator or monitor", "nobody".
std::string CallersOf(std::string_view path) {
  std::string callers;
  for (const Role role : kRoles) {
    if (!MayCall(role, path)) continue;
    callers += (callers.empty() ? "" : " or ") + std::string(RoleName(role));
  }
  return callers.empty() ? "nobody" : callers;
}

// gRPC calls it at the start of every call, before our handlers.
class TokenCheck : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(Credentials credentials) : credentials_(std::move(credentials)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata*) override {
    std::optional<Role> role;
    const auto [begin, end] = metadata.equal_range(kTokenHeader);
    for (auto sent = begin; sent != end; ++sent) {
      const std::string_view value(sent->second.data(), sent->second.size());
      if (const auto found = credentials_.RoleOf(value)) role = found;
      consumed->emplace(kTokenHeader, value);
    }
    if (!role) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              "the token is missing or of another run; the files of local.security.tokens must be "
              "the same on every machine"};
    }
    return Permit(*role, metadata);
  }

 private:
  static grpc::Status Permit(Role role, const InputMetadata& metadata) {
    const auto path = metadata.find(":path");
    const std::string_view called =
        path == metadata.end() ? "" : std::string_view(path->second.data(), path->second.size());
    if (path != metadata.end() && MayCall(role, called)) return grpc::Status::OK;
    const std::string needed = CallersOf(called);
    return {grpc::StatusCode::PERMISSION_DENIED,
            fmt::format("{} needs the token of the {}, and this call has that of the {}; make it "
                        "from a program whose local.security.tokens has the {}'s",
                        called, needed, RoleName(role), needed)};
  }

  const Credentials credentials_;
};

// gRPC calls it at the start of every call of a client.
class TokenSender : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenSender(std::shared_ptr<TokenFile> token) : token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }

  const char* GetType() const override { return "buttress token"; }

  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<std::string, std::string>* metadata) override {
    for (const std::string& token : token_->Valid())
      metadata->emplace(kTokenHeader, "Bearer " + token);
    return grpc::Status::OK;
  }

 private:
  const std::shared_ptr<TokenFile> token_;
};

using CertificateProvider = std::shared_ptr<grpc::experimental::CertificateProviderInterface>;

// Returns what reads the files again. All ports and channels of a process share it, because each
// has a thread.
CertificateProvider ProviderOf(const CertificateFiles& files) {
  static Mutex mutex;
  static auto& providers = *new std::map<CertificateFiles, CertificateProvider>;
  MutexLock lock(mutex);
  CertificateProvider& provider = providers[files];
  if (provider == nullptr) {
    provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        files.key, files.certificate, files.ca, kCertificateRefreshSeconds);
  }
  return provider;
}

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const Credentials& credentials) {
  if (credentials.empty()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProviderOf(credentials.files));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  auto tls = grpc::experimental::TlsCredentials(options);
  if (credentials.token == nullptr) return tls;
  return grpc::CompositeChannelCredentials(
      tls, grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenSender>(credentials.token)));
}

// Debian's abseil checks the order of all locks of gRPC, under one global lock.
void CheckNoLockOrder() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const Credentials& credentials) {
  CheckNoLockOrder();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxResponseBytes);
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
  grpc::experimental::TlsServerCredentialsOptions options(ProviderOf(credentials.files));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  auto made = grpc::experimental::TlsServerCredentials(options);
  made->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(credentials));
  return made;
}

void ApplyServerOptions(grpc::ServerBuilder& builder) {
  CheckNoLockOrder();
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxResponseBytes);
  grpc::ResourceQuota quota;
  quota.Resize(kMaxBufferedBytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  // By default two servers can listen on one port at once, and each receives half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingMs);
}

}  // namespace buttress
