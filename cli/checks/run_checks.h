// The checks of a run that only the command line makes, besides those of
// lib/checks/program_checks.h: against the folder of the run, on the other machines, and those that
// start programs with --check, which compute what only they can. Without LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/fleet/fleet.h"
#include "lib/base/report/status.h"
#include "lib/checks/findings.h"
#include "lib/config/run_config.h"

namespace CLI {
class App;
}

namespace buttress {

// The configuration as it is passed to programs.
struct RunFile {
  std::string path;
  std::vector<std::string> overrides;

  // "--config", path, "--set", override, ...
  std::vector<std::string> Arguments() const;
};

// The machines of a run; without a file, this one alone.
struct HostsFlags {
  std::string path;
  std::string ssh = "ssh";

  // --hosts and --ssh.
  void AddTo(CLI::App& app);

  // Reads the file, if there is one, and adds what it implies to the overrides of `run`, whose
  // settings are `local` so far.
  Result<std::optional<Fleet>> Load(const LocalSettings& local, RunFile& run) const;
};

// Starts all ranks of the learner by mpirun as `buttress launch` does, with --check, and waits for
// two minutes at most. `settings` is the configuration on their command line (RunFile::Arguments),
// `hosts` that of Fleet::MpirunArguments. REQUIRES: this process has one thread.
void CheckLearnerJob(const RunConfig& config, const std::vector<std::string>& settings,
                     const std::vector<std::string>& hosts, Findings& findings);

// Checks vLLM servers that others have started, by `rollout_worker --check`. Does nothing where the
// run has none.
void CheckNamedServers(const RunConfig& config, const RunFile& file, Findings& findings);

// Whether `folder` is that of a run, which may be continued or moved aside.
bool IsRunFolder(const std::string& folder);

// Checks that a launch neither fills nor moves what is not a run's: an error where local.out holds
// something, other than the run file `run_file`, and is no folder of a run; with `fresh` also where
// it is one and the run file is inside.
void CheckRunFolder(const RunConfig& config, const std::string& run_file, bool fresh,
                    Findings& findings);

// Names each key of `run` that differs from <out>/config.yaml: an error unless it may change when a
// run is resumed. Says nothing where local.out holds no run.
void CheckResume(const RunConfig& config, Findings& findings);

// Loads the configuration and checks the run with everything, also on other machines; if there are
// no errors, starts the programs with --check and asks the coordinator, if one is up. With `fresh`,
// nothing is resumed. A file that cannot be loaded is the only finding. REQUIRES: this process has
// one thread.
Findings CheckRunFile(RunFile file, const HostsFlags& hosts, bool fresh);

}  // namespace buttress
