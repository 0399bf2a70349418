// `buttress import verl FILE` and `buttress import trl FILE`: write another trainer's settings as
// ours, and name on stderr what could not be carried.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/import/settings.h"
#include "lib/base/file.h"
#include "lib/config/load.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxBytes = 1 << 20;

struct ImportFlags {
  std::string path;
  std::string out;
  std::vector<std::string> overrides;
};

Status Write(const ImportSource& source, const ImportFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.path, kMaxBytes));
  const Result<FlatSettings> theirs = ReadForeignSettings(text, flags.overrides);
  if (!theirs.ok()) return theirs.status().Annotate(flags.path);
  const Imported imported = Import(source, *theirs);
  const std::string yaml = PrintImported(imported.ours);
  for (const std::string& note : imported.notes) fmt::print(stderr, "{}\n", note);
  const Status valid = ParseRunConfig(yaml, "the result", {}).status();
  if (!valid.ok()) fmt::print(stderr, "to be mended before it runs:\n{}\n", valid.message());
  if (flags.out.empty()) {
    fmt::print("{}", yaml);
    return OkStatus();
  }
  return WriteFileAtomic(flags.out, yaml);
}

std::function<Status()> AddSource(CLI::App& app, const ImportSource& source) {
  const auto flags = std::make_shared<ImportFlags>();
  app.add_option("file", flags->path, "its settings, YAML or JSON")->required();
  app.add_option("overrides", flags->overrides,
                 "KEY=VALUE, as on the command line of that trainer");
  app.add_option("--out", flags->out, "file to write instead of stdout");
  return [flags, &source] { return Write(source, *flags); };
}

}  // namespace

std::function<Status()> AddImport(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& verl_app = *app.add_subcommand("verl", "a configuration of verl's main_ppo");
  CLI::App& trl_app = *app.add_subcommand("trl", "the arguments of a GRPOConfig");
  return [&verl_app, verl = AddSource(verl_app, VerlSettings()),
          trl = AddSource(trl_app, TrlSettings())] { return verl_app.parsed() ? verl() : trl(); };
}

}  // namespace buttress
