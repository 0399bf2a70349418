// `buttress launch`.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/launch.h"
#include "lib/config/load.h"

namespace buttress {

std::function<Status()> AddLaunch(CLI::App& app) {
  const auto options = std::make_shared<LaunchOptions>();
  app.add_option("config", options->config_path, "YAML file of the run")->required();
  app.add_option("--set", options->overrides,
                 "override a setting: run.optim.lr=1e-5 (may stand several times)");
  app.add_flag("--fresh", options->fresh,
               "move the folder of an earlier run aside instead of going on with it");
  app.add_flag("!--no-eval", options->evaluate, "leave out the held-out accuracy before and after");
  return [options]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                              LoadRunConfig(options->config_path, options->overrides));
    return Launch(*options, config);
  };
}

}  // namespace buttress
