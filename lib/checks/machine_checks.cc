#include "lib/checks/machine_checks.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "lib/base/net/address.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/program_path.h"
#include "lib/config/load_credentials.h"
#include "lib/config/token_bounds.h"
#include "lib/measure/eval_files.h"

namespace buttress {
namespace {

Status TryOne(const addrinfo& info, const std::string& address) {
  const OwnedFd socket(::socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol));
  const int fd = socket.get();
  if (fd < 0) return InvalidArgument(address + ": " + std::strerror(errno));
  const int on = 1;  // a connection that was closed a moment ago does not count
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (info.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, info.ai_addr, info.ai_addrlen) == 0 && ::listen(fd, 1) == 0) return OkStatus();
  const int error = errno;
  const std::string message = "cannot listen on " + address + ": " + std::strerror(error);
  return error == EADDRINUSE ? Unavailable(message) : InvalidArgument(message);
}

namespace fs = std::filesystem;

constexpr int kPortTries = 40;  // two seconds
constexpr std::chrono::milliseconds kPortWait(50);
// A token of a payload: an id, a log-prob, a version and an entropy.
constexpr std::int64_t kBytesOfToken = 16;
// Certificates that expire sooner get a warning: runs last for days.
constexpr double kFewDays = 7;

// The deepest folder above `path`, or `path` itself, that exists.
fs::path ExistingPart(const std::string& path) {
  fs::path part = fs::absolute(path);
  std::error_code error;
  while (!fs::exists(part, error) && part.has_relative_path()) part = part.parent_path();
  return part;
}

std::int64_t BytesOfParameter(const RunSettings& run) {
  if (run.model.dtype == ModelDtype::kFloat32) return 4 + 8;  // weights and two moments
  return run.optim.precision == OptimPrecision::kStochastic ? 2 + 4 : 2 + 12;
}

double NeededBytes(const RunConfig& config, std::int64_t parameters) {
  const RunSettings& run = config.run;
  const std::int64_t weights = run.model.dtype == ModelDtype::kFloat32 ? 4 : 2;
  const std::int64_t checkpoints = run.checkpoints.keep_last + run.checkpoints.keep_best;
  // The trained model, and a version that is published while another is read; the best model and
  // the one that it replaces; the weights that wait for their evaluation, and those being written.
  const std::int64_t models =
      3 + (run.checkpoints.keep_best > 0 ? 2 : 0) +
      (run.eval.every > 0 ? static_cast<std::int64_t>(kMostPendingEvals) + 1 : 0);
  const double model = static_cast<double>(parameters) *
                       static_cast<double>(checkpoints * BytesOfParameter(run) + models * weights);
  const double tokens = static_cast<double>(run.batch.prompts * run.sampling.group_size) *
                        static_cast<double>(MostBehindPrompt(run));
  // Payloads are deleted once a checkpoint has settled them.
  const std::int64_t kept = config.local.coordinator.keep_payloads
                                ? run.steps
                                : std::min(run.steps, 2 * run.checkpoint_interval);
  const double steps = static_cast<double>(kept + run.batch.max_age + 1);
  return model + tokens * steps * static_cast<double>(kBytesOfToken);
}

std::string HostOf(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

// A peer accepts the certificate of this machine at the address that `program` is advertised by.
Status CheckNames(const Credentials& credentials, const LocalSettings& local, Program program) {
  if (!local.security.name.empty()) return CheckCertificateName(credentials, local.security.name);
  const std::string& address = program == Program::kCoordinator ? local.coordinator.advertise
                               : program == Program::kWorker    ? local.worker.advertise
                                                                : local.learner.advertise;
  // A coordinator is reached by one of the names, and its standby by the others.
  Status named;
  for (const std::string& one : AddressesOf(address)) {
    named = CheckCertificateName(credentials, HostOf(one));
    if (named.ok()) break;
  }
  return named;
}

}  // namespace

Status TryListen(const std::string& address) {
  BUTTRESS_ASSIGN_OR_RETURN(const AddressList list, ResolveListen(address));
  return TryOne(*list, address);
}

std::vector<ListenSetting> CoordinatorListeners(const LocalSettings& local) {
  return {{"local.coordinator.listen", local.coordinator.listen},
          {"local.coordinator.metrics", local.coordinator.metrics},
          {"local.coordinator.page", local.coordinator.page}};
}

std::vector<ListenSetting> WorkerListeners(const LocalSettings& local) {
  return {{"local.worker.listen", local.worker.listen},
          {"local.worker.metrics", local.worker.metrics}};
}

std::vector<ListenSetting> LearnerListeners(const LocalSettings& local, std::int64_t ranks,
                                            bool is_first) {
  std::vector<ListenSetting> listeners;
  if (is_first) listeners.push_back({"local.learner.listen", local.learner.listen});
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    listeners.push_back({"local.learner.metrics", RankAddress(local.learner.metrics, rank)});
  return listeners;
}

void CheckPrograms(const LocalSettings& local, Findings& findings) {
  bool all = true;
  for (const char* name : {"coordinator", "rollout_worker", "learner"}) {
    const std::string path = (fs::read_symlink("/proc/self/exe").parent_path() / name).string();
    if (OnPath(path)) continue;
    all = false;
    findings.Error("programs", fmt::format("no program {}; build the target '{}'", path, name));
  }
  if (!OnPath(local.launch.mpirun)) {
    all = false;
    findings.Error("local.launch.mpirun",
                   local.launch.mpirun + " is not found; install Open MPI, or name its mpirun");
  }
  if (all) findings.Ok("programs", "coordinator, rollout_worker, learner and mpirun are found");
}

void CheckPorts(const std::vector<ListenSetting>& listeners, Findings& findings) {
  std::map<std::string, std::string> owners;
  for (const auto& [key, address] : listeners) {
    if (address.ends_with(":0") || address == "off") continue;
    if (const auto [owner, is_new] = owners.emplace(address, key); !is_new) {
      findings.Error(key, fmt::format("{} is also {}; give each its own port, or port 0", address,
                                      owner->second));
      continue;
    }
    Status status = TryListen(address);
    for (int tries = 0; tries < kPortTries && status.code() == StatusCode::kUnavailable; ++tries) {
      std::this_thread::sleep_for(kPortWait);
      status = TryListen(address);
    }
    if (!status.ok()) {
      findings.Error(key, status.message() +
                              "; stop the process that uses the port, or set "
                              "another port or 0");
    } else {
      findings.Ok(key, address + " is free");
    }
  }
}

void CheckDisk(const RunConfig& config, std::int64_t parameters, Findings& findings) {
  const std::string key = "local.out";
  const fs::path part = ExistingPart(config.local.out);
  std::error_code error;
  if (!fs::is_directory(part, error)) {
    return findings.Error(
        key, fmt::format("{} is no folder; name another folder, or move it away", part.string()));
  }
  if (::access(part.c_str(), W_OK | X_OK) != 0) {
    return findings.Error(
        key, fmt::format("{} cannot be written; name a folder that can", part.string()));
  }

  struct statvfs disk {};

  if (::statvfs(part.c_str(), &disk) != 0) return;  // no figure, no verdict
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const double needed = NeededBytes(config, parameters);
  const std::string figures =
      fmt::format("{} free, about {} needed", SizeText(free), SizeText(needed));
  if (free < needed) {
    findings.Error(key, figures +
                            " for two checkpoints, weights and payloads; free some, or name "
                            "a folder on another disk");
  } else if (free < 2 * needed) {
    findings.Warn(key, figures + "; other programs may fill the disk");
  } else {
    findings.Ok(key, figures);
  }
}

void CheckCredentials(const LocalSettings& local, Program program, Findings& findings) {
  const std::string key = "local.security";
  if (local.security.certificate.empty()) return;
  const auto credentials = LoadCredentials(local.security, program);
  if (!credentials.ok()) return findings.Error(key, credentials.status().message());
  if (const Status names = CheckNames(*credentials, local, program); !names.ok())
    return findings.Error("local.security.certificate", names.message());
  const double days = CertificateDays(*credentials);
  const std::string valid = fmt::format("the certificates are valid for {:.1f} days more", days);
  if (days < kFewDays) {
    findings.Warn(key, valid + "; make new ones (deploy/make-certs.sh) before the run ends");
  } else {
    findings.Ok(key, "certificate, key, authority and tokens match; " + valid);
  }
}

}  // namespace buttress
