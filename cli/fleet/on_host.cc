// `buttress on-host`: both ends of a program that `buttress launch --hosts` runs on another machine
// (cli/fleet/ssh_session.h).
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/command.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/ssh_session.h"
#include "lib/base/os/shutdown.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

struct OnHostOptions {
  bool agent = false, check = false, here = false, once = false;
  std::string cwd;
  HostNeeds needs;
  SshSession session;
  FarProgram far;
  std::vector<std::string> argv;
};

// A status of a program on another machine passes through this process unchanged.
[[noreturn]] void ExitWith(int code) {
  std::fflush(stdout);
  std::exit(code);
}

Status Check(const OnHostOptions& options) {
  if (!options.here) {
    BUTTRESS_ASSIGN_OR_RETURN([[maybe_unused]] const int done, RunFarProgram(options.far));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(SentConfigPath(options.far.out), {}));
  BUTTRESS_ASSIGN_OR_RETURN(const HostAnswer answer, CheckThisHost(options.needs, config));
  fmt::print("{}", answer.ToText());
  return OkStatus();
}

Status RunAgent(OnHostOptions& options) {
  if (::chdir(options.cwd.c_str()) != 0) {
    return InvalidArgument("the working folder of launch, " + options.cwd +
                           ", cannot be entered: " + std::strerror(errno) + "; make it");
  }
  if (options.check) return Check(options);
  options.far.argv = options.argv;
  BUTTRESS_ASSIGN_OR_RETURN(const int code, RunFarProgram(options.far));
  ExitWith(code);
}

Status RunOnHost(OnHostOptions& options) {
  InstallShutdownHandlers();
  if (options.agent) return RunAgent(options);
  options.session.far = options.argv;
  options.session.retry = !options.once;
  options.session.stop_ms = options.far.stop_ms;
  ExitWith(RunSession(options.session));
}

}  // namespace

std::function<Status()> AddOnHost(CLI::App& app) {
  const auto options = std::make_shared<OnHostOptions>();
  app.add_option("--ssh", options->session.ssh, "command that reaches the machine");
  app.add_option("--host", options->session.host, "machine, as ssh takes it");
  app.add_option("--config", options->session.config, "configuration to send");
  app.add_flag("--once", options->once, "give up at the first connection that fails");
  app.add_option("--stop-timeout-ms", options->far.stop_ms, "time for a clean stop");
  app.add_flag("--agent", options->agent, "be the end on the other machine");
  app.add_flag("--here", options->here, "the agent checks the launching machine itself");
  app.add_option("--cwd", options->cwd, "working folder of the agent");
  app.add_option("--out", options->far.out, "folder of the run");
  app.add_option("--role", options->far.role, "name of the program in the run");
  app.add_flag("--check", options->check, "check this machine instead of running a program");
  app.add_option("--version", options->needs.version, "check: version of the programs");
  app.add_option("--workers", options->needs.workers, "check: rollout workers");
  app.add_option("--ranks", options->needs.ranks, "check: learner ranks");
  app.add_option("program", options->argv, "program and its arguments, after --");
  return [options] { return RunOnHost(*options); };
}

}  // namespace buttress
