#include "cli/run_client.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "lib/config/load.h"
#include "lib/config/run_folder.h"

namespace buttress {

void RunFlags::AddRun(CLI::App& app) {
  app.add_option("run,--config", run, "YAML file of the run, or its folder")->required();
  app.add_option("--set", overrides,
                 "override a setting, as for `buttress launch`; may be repeated")
      ->allow_extra_args(false);
}

void RunFlags::AddTo(CLI::App& app) {
  AddRun(app);
  app.add_flag("--json", json, "print JSON");
}

Result<RunConfig> ConfigOf(const RunFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.run);
  BUTTRESS_ASSIGN_OR_RETURN(
      RunConfig config,
      LoadRunConfig(is_folder ? StoredConfigPath(flags.run) : flags.run, flags.overrides));
  if (is_folder) config.local.out = flags.run;
  return config;
}

Result<LocalSettings> LocalOf(const RunFlags& flags) {
  LocalSettings local;
  local.out = flags.run;
  if (std::filesystem::is_directory(flags.run) &&
      !std::filesystem::exists(StoredConfigPath(flags.run)))
    return local;
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, ConfigOf(flags));
  return config.local;
}

Result<std::unique_ptr<CoordinatorClient>> ConnectToRun(const RunFlags& flags, Program program,
                                                        std::int64_t give_up_ms) {
  BUTTRESS_ASSIGN_OR_RETURN(const LocalSettings local, LocalOf(flags));
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(local.security, program));
  CoordinatorClientOptions options = CoordinatorClientOptionsFrom(local, credentials);
  options.give_up_after_ms = give_up_ms;
  return std::make_unique<CoordinatorClient>(options);
}

}  // namespace buttress
