#include "lib/checks/peer_checks.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/net/address.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/http/http_client.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {
namespace {

constexpr const char* kCheck = "coordinator";
constexpr int kConnectMs = 2000;
constexpr std::int64_t kCallMs = 3000;
constexpr std::int64_t kMaxAddressBytes = 1024;

bool Connects(const addrinfo& info) {
  const int type = info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const OwnedFd fd(::socket(info.ai_family, type, info.ai_protocol));
  if (fd.get() < 0) return false;
  if (::connect(fd.get(), info.ai_addr, info.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd ready{fd.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  return ::poll(&ready, 1, kConnectMs) == 1 &&
         ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Whether somebody listens at `address` (host:port), within two seconds.
bool CanConnect(const std::string& address) {
  const Result<AddressList> list = ResolveListen(address);
  for (const addrinfo* one = list.ok() ? list->get() : nullptr; one != nullptr; one = one->ai_next)
    if (Connects(*one)) return true;
  return false;
}

// host:port of the coordinator; empty where it is not known yet.
std::string AddressOf(const CoordinatorClientOptions& options) {
  if (!options.address.empty()) return options.address;
  const auto text = ReadFile(options.address_file, kMaxAddressBytes);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

void Judge(const std::string& address, const Status& answer, Findings& findings) {
  switch (answer.code()) {
    case StatusCode::kOk:
    case StatusCode::kPermissionDenied:  // a role that may not ask this, so its token is known
      return findings.Ok(kCheck, address + " answers; certificates and tokens agree");
    case StatusCode::kUnauthenticated:
      return findings.Error("local.security.tokens",
                            fmt::format("the coordinator at {} refuses the token; copy the role's "
                                        "file from its machine",
                                        address));
    default:
      return findings.Error(
          "local.security",
          fmt::format("the coordinator at {} takes connections and no calls ({}); use TLS on both "
                      "sides or on none, certificates of one authority, and a name that its "
                      "certificate has",
                      address, answer.message()));
  }
}

constexpr std::int64_t kMaxKeyBytes = 4096;
constexpr std::int64_t kWholeMs = 10000;

// The names that a server lists; empty if the reply is none of vLLM's.
std::vector<std::string> ModelsIn(const std::string& body) {
  std::vector<std::string> names;
  const auto reply = ParseBoundedJson(body);
  if (!reply.ok() || !reply->is_object() || !reply->contains("data")) return names;
  for (const nlohmann::json& model : (*reply)["data"]) {
    if (model.is_object() && model.contains("id") && model["id"].is_string())
      names.push_back(model["id"].get<std::string>());
  }
  return names;
}

void Judge(const std::string& server, const Result<HttpReply>& reply, const std::string& model,
           Findings& findings) {
  const std::string key = "local.worker.vllm.servers";
  if (!reply.ok()) {
    return findings.Error(key, fmt::format("{} does not answer: {}; start it, or take it out",
                                           server, reply.status().message()));
  }
  if (reply->status == 401 || reply->status == 403) {
    return findings.Error(key, server + " refuses the key of local.worker.vllm.api_key_file");
  }
  const std::vector<std::string> names = ModelsIn(reply->body);
  if (reply->status != 200 || names.empty()) {
    return findings.Error(key, fmt::format("{}/v1/models answers {} and names no model; expected a "
                                           "vLLM server",
                                           server, reply->status));
  }
  if (!model.empty() && std::ranges::find(names, model) == names.end()) {
    return findings.Error(
        "local.worker.vllm.model",
        fmt::format("{} does not serve {}; it serves {}", server, model, names.front()));
  }
  findings.Ok(key, fmt::format("{} serves {}", server, model.empty() ? names.front() : model));
}

}  // namespace

void CheckCoordinator(const RunConfig& config, Program program, Findings& findings) {
  const auto credentials = LoadCredentials(config.local.security, program);
  if (!credentials.ok()) return;  // an error already
  CoordinatorClientOptions options = CoordinatorClientOptionsFrom(config.local, *credentials);
  const std::string address = AddressOf(options);
  if (address.empty() || !CanConnect(address))
    return findings.Ok(kCheck, "skipped: no coordinator of this run is up");
  options.give_up_after_ms = kCallMs;
  Judge(address, CoordinatorClient(options).GetRunStatus().status(), findings);
}

void CheckSharedFolder(const RunConfig& config, Findings& findings) {
  const LocalSettings& local = config.local;
  const std::string stored = StoredConfigPath(local.out);
  std::error_code error;
  if (std::filesystem::exists(stored, error)) {
    const auto other = LoadRunConfig(stored, {});
    const bool same = other.ok() && RunConfigHash(*other) == RunConfigHash(config);
    return same ? findings.Ok("local.out", stored + " is of this run")
                : findings.Warn("local.out", stored + " is of a run with other settings");
  }
  const std::string& address = local.coordinator.advertise;
  if (local.worker.weights != WeightTransportKind::kShared || address.empty() ||
      !CanConnect(address))
    return;
  findings.Error("local.worker.weights",
                 fmt::format("shared, and the coordinator at {} is up, but {} has no config.yaml "
                             "of it; mount the folder of the run there, or set "
                             "local.worker.weights: grpc",
                             address, local.out));
}

void CheckServers(const VllmConfig& vllm, Findings& findings) {
  std::string bearer;
  if (!vllm.api_key_file.empty()) {
    auto text = ReadSecretFile(vllm.api_key_file, kMaxKeyBytes);
    if (!text.ok())
      return findings.Error("local.worker.vllm.api_key_file", text.status().message());
    bearer = text->substr(0, text->find_last_not_of(" \n\r\t") + 1);
  }
  std::vector<HttpRequest> requests;
  for (const std::string& server : vllm.servers) {
    HttpRequest request;
    request.url = server + "/v1/models";
    request.bearer = bearer;
    request.deadlines.connect_ms = vllm.connect_ms;
    request.deadlines.whole_ms = kWholeMs;
    requests.push_back(std::move(request));
  }
  HttpClient client;
  const auto replies = client.Fetch(std::move(requests));
  for (std::size_t i = 0; i < replies.size(); ++i)
    Judge(vllm.servers[i], replies[i], vllm.model, findings);
}

}  // namespace buttress
