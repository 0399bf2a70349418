#include "cli/fleet/mpirun_command.h"

#include <unistd.h>

namespace buttress {

std::vector<std::string> MpirunCommand(const LocalSettings& local,
                                       const std::vector<std::string>& hosts) {
  const LaunchConfig& launch = local.launch;
  std::vector<std::string> argv = {launch.mpirun, "-np",  std::to_string(launch.learner_ranks),
                                   "--bind-to",   "none", "--oversubscribe"};
  if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
  if (const std::string& interface = local.learner.interface; !interface.empty()) {
    argv.insert(argv.end(),
                {"--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include", interface,
                 "-x", "NCCL_SOCKET_IFNAME=" + interface});
  }
  // Without further arguments all ranks run on this machine and share memory. Open MPI would
  // listen for others on every interface all the same.
  if (local.learner.interface.empty() && launch.mpirun_args.empty() && hosts.empty())
    argv.insert(argv.end(), {"--mca", "btl", "^tcp"});
  argv.insert(argv.end(), hosts.begin(), hosts.end());
  argv.insert(argv.end(), launch.mpirun_args.begin(), launch.mpirun_args.end());
  return argv;
}

}  // namespace buttress
