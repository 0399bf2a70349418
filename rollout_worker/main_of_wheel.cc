// The program rollout_worker of the Python package. Without LibTorch it has the commands that can
// sample from a server: probe and eval.
#include <cstdio>
#include <exception>
#include <string_view>

#include "lib/base/os/file.h"
#include "lib/base/report/status.h"
#include "rollout_worker/evaluation/eval.h"
#include "rollout_worker/evaluation/probe.h"

namespace buttress {
namespace {

int Report(const Status& status) {
  std::fprintf(stderr, "rollout_worker: %s\n", status.message().c_str());
  return ExitCode(status);
}

int Run(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "probe") return RunProbeCommand(argc - 1, argv + 1, nullptr);
  if (command == "eval") return RunEval(argc - 1, argv + 1, nullptr);
  return Report(NotFound("'" + std::string(command) +
                         "' needs the full program, which deploy/build.sh builds and the Python "
                         "package lacks"));
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    buttress::TightenUmask();
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    return buttress::Report(buttress::Internal(e.what()));
  }
}
