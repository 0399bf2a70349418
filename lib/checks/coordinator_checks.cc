#include "lib/checks/coordinator_checks.h"

#include <fmt/core.h>

#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/checks/port.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {
namespace {

constexpr const char* kCheck = "coordinator";
constexpr std::int64_t kCallMs = 3000;
constexpr std::int64_t kMaxAddressBytes = 1024;

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

}  // namespace buttress
