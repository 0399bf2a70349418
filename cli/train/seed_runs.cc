#include "cli/train/seed_runs.h"

#include <fmt/core.h>

#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"

namespace buttress {

std::string SeedsFolder(const std::string& out) { return out + "-seeds"; }

std::vector<RunFile> SeedRuns(const RunFile& file, const RunConfig& config, std::int64_t seeds) {
  std::vector<RunFile> files;
  for (std::int64_t i = 0; i < seeds; ++i) {
    const std::int64_t seed = config.run.seed + i;
    RunFile& one = files.emplace_back(file);
    one.overrides.push_back(fmt::format("run.seed={}", seed));
    one.overrides.push_back(
        fmt::format("local.out={}/seed-{}", SeedsFolder(config.local.out), seed));
  }
  return files;
}

Status CheckSameSettings(const RunConfig& config) {
  const auto stored = LoadRunConfig(StoredConfigPath(config.local.out), {});
  if (!stored.ok()) return OkStatus();  // it has not begun
  std::vector<SettingChange> changes = ChangesOf(*stored, config);
  std::erase_if(changes, [](const SettingChange& change) {
    return change.key == "run.steps" || change.key == "run.epochs";
  });
  if (changes.empty()) return OkStatus();
  return InvalidArgument(
      "the run in " + config.local.out +
      " was started with other settings, and the runs of --seeds differ in their seed alone; put "
      "the old values back, set local.out to another folder, or start again with --fresh:" +
      DescribeChanges(changes));
}

}  // namespace buttress
