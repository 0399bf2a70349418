#include "rollout_worker/commands.h"

#include <cstdio>

#include "lib/base/os/shutdown.h"

namespace buttress {

int RunCommand(CLI::App& app, int argc, char** argv, const std::function<Status()>& action) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // also thrown for --help
    return app.exit(e) == 0 ? 0 : ExitCode(InvalidArgument(e.what()));
  }
  InstallShutdownHandlers();
  const Status status = action();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), status.message().c_str());
  return CommandExitCode(status);
}

}  // namespace buttress
