#include "cli/train/seed_runs.h"

#include <fmt/core.h>

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

}  // namespace buttress
