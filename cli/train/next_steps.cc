#include "cli/train/next_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/process.h"
#include "cli/train/seed_runs.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

// A path as a user types it: relative to the working folder where that is shorter.
std::string AsTyped(const std::string& path) {
  const std::string relative = fs::path(path).lexically_proximate(fs::current_path()).string();
  return relative.size() < path.size() ? relative : path;
}

// The launch with the settings of the command line but those of `keys`.
std::string CommandBut(const TypedLaunch& launch, const std::vector<std::string>& keys) {
  std::string text = AsTyped(SiblingProgram("buttress")) + " launch " + ShellWord(launch.file.path);
  for (const std::string& setting : launch.file.overrides) {
    const std::string key = setting.substr(0, setting.find('='));
    if (std::ranges::find(keys, key) == keys.end()) text += " --set " + ShellWord(setting);
  }
  for (const std::string& flag : launch.flags) text += " " + ShellWord(flag);
  return text;
}

std::string NextRuns(const TypedLaunch& launch, const RunConfig& config) {
  const Estimator other =
      config.run.algorithm.advantage == Estimator::kGrpo ? Estimator::kAvspo : Estimator::kGrpo;
  const std::string out = AsTyped(config.local.out);
  const std::string other_out = fmt::format("{}-{}", out, ChoiceName(other));
  return fmt::format(
      "  {} --seeds 3        # one run says little; this makes three and their mean\n"
      "  {} --set run.algorithm.advantage={} --set local.out={} --seeds 3\n"
      "  {} compare {}/seed-* {}/seed-*\n",
      CommandBut(launch, {}), CommandBut(launch, {"run.algorithm.advantage", "local.out"}),
      ChoiceName(other), ShellWord(other_out), AsTyped(SiblingProgram("buttress")),
      ShellWord(SeedsFolder(out)), ShellWord(SeedsFolder(other_out)));
}

}  // namespace

std::string WhatToDoNext(const TypedLaunch& launch, const RunConfig& config) {
  const bool single = launch.seeds == 0 && !launch.on_hosts;
  return fmt::format(
      "\nlook at it\n"
      "  open {0}/page.html in a browser: curves, causes, alarms and texts\n"
      "  {1} explain {0}        # why groups gave no signal, and what to change\n"
      "try next\n{2}"
      "  your own model and data: README.md, \"Your own model and data\"",
      AsTyped(config.local.out), AsTyped(SiblingProgram("buttress")),
      single ? NextRuns(launch, config) : "");
}

}  // namespace buttress
