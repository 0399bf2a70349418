// What a machine needs for its part of a run.
#include <fmt/core.h>
#include <net/if.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/fleet/fleet.h"
#include "cli/process.h"
#include "cli/worker_gpus.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/load_credentials.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

Status NeedProgram(const std::string& path) {
  if (::access(path.c_str(), X_OK) == 0) return OkStatus();
  return InvalidArgument(path + " is not there; install the same programs at the same path");
}

// mpirun starts orted by ssh: beside itself if it was named with its folder, else on PATH.
Status NeedOrted(const std::string& mpirun) {
  if (mpirun.find('/') != std::string::npos)
    return NeedProgram((fs::path(mpirun).parent_path() / "orted").string());
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/orted").c_str(), X_OK) == 0) return OkStatus();
  return InvalidArgument(
      "orted of Open MPI is not on the PATH of an ssh session; install the Open MPI of the "
      "launching machine, or name mpirun with its folder (local.launch.mpirun)");
}

Status NeedCredentials(const SecurityConfig& security, Program program) {
  return LoadCredentials(security, program).status();
}

}  // namespace

Result<int> CheckThisHost(const HostNeeds& needs, const RunConfig& config) {
  const LocalSettings& local = config.local;
  if (needs.version != ProgramVersion()) {
    return InvalidArgument(
        fmt::format("the programs are of version {}, the launching machine's of "
                    "{}; install the same ones",
                    ProgramVersion(), needs.version));
  }
  if (!fs::is_directory(config.run.model.path)) {
    return InvalidArgument(fmt::format("run.model.path: no folder {}; copy it there",
                                       fs::absolute(config.run.model.path).string()));
  }
  if (needs.workers > 0) {
    BUTTRESS_RETURN_IF_ERROR(NeedProgram(SiblingProgram("rollout_worker")));
    BUTTRESS_RETURN_IF_ERROR(NeedCredentials(local.security, Program::kWorker));
  }
  if (needs.ranks > 0) {
    BUTTRESS_RETURN_IF_ERROR(NeedProgram(SiblingProgram("learner")));
    BUTTRESS_RETURN_IF_ERROR(NeedOrted(local.launch.mpirun));
    BUTTRESS_RETURN_IF_ERROR(NeedCredentials(local.security, Program::kLearner));
    const std::string& interface = local.learner.interface;
    if (!interface.empty() && ::if_nametoindex(interface.c_str()) == 0)
      return InvalidArgument("local.learner.interface: no network interface " + interface);
  }
  LocalSettings own = local;
  own.launch.workers = needs.workers;
  if (needs.workers == 0 || !WorkersNeedGpus(own)) return 0;
  const Result<int> visible = CountCudaDevices();
  if (!visible.ok()) {
    return InvalidArgument("local.worker.device: cuda: " + visible.status().message() +
                           "; use cpu, or check nvidia-smi");
  }
  return visible;
}

std::string ProgramVersion() { return BUTTRESS_VERSION; }

}  // namespace buttress
