// `buttress import verl FILE` and `buttress import trl FILE`: write another trainer's settings as
// ours, and name on stderr what could not be carried. import.py knows the settings.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/python/python_program.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

struct ImportFlags {
  std::string path;
  std::string out;
  std::vector<std::string> overrides;
};

Status Write(const std::string& source, const ImportFlags& flags) {
  std::vector<std::string> arguments = {source, flags.path};
  arguments.insert(arguments.end(), flags.overrides.begin(), flags.overrides.end());
  BUTTRESS_ASSIGN_OR_RETURN(const std::string yaml, RunPython(kImportProgram, arguments));
  const Status valid = ParseRunConfig(yaml, "the result", {}).status();
  if (!valid.ok()) fmt::print(stderr, "to be fixed before it runs:\n{}\n", valid.message());
  if (flags.out.empty()) {
    fmt::print("{}", yaml);
    return OkStatus();
  }
  return WriteFileAtomic(flags.out, yaml);
}

std::function<Status()> AddSource(CLI::App& app) {
  const auto flags = std::make_shared<ImportFlags>();
  app.add_option("file", flags->path, "its settings, YAML or JSON")->required();
  app.add_option("overrides", flags->overrides,
                 "KEY=VALUE, as on the command line of that trainer");
  app.add_option("--out", flags->out, "file to write instead of stdout");
  return [flags, &app] { return Write(app.get_name(), *flags); };
}

}  // namespace

std::function<Status()> AddImport(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& verl_app = *app.add_subcommand("verl", "a configuration of verl's main_ppo");
  CLI::App& trl_app = *app.add_subcommand("trl", "the arguments of a GRPOConfig");
  return [&verl_app, verl = AddSource(verl_app), trl = AddSource(trl_app)] {
    return verl_app.parsed() ? verl() : trl();
  };
}

}  // namespace buttress
