// The settings that make a run the same run, so that a later start may continue it.
#pragma once

#include <string>
#include <vector>

#include "lib/config/run_config.h"

namespace buttress {

// The keys of `run` that may have another value when a run is resumed (MayChange in limits.h): its
// length, learning rate, clip bounds and times. A path may also name the same file in another
// folder.
std::vector<std::string> ChangeableKeys();

// SHA-256 (hex) of the `run` half without the changeable keys. Ledger and checkpoints store it;
// RunConfigHash, which covers every key, is compared between the processes of a run.
std::string RunIdentityHash(const RunConfig& config);

struct SettingChange {
  std::string key;  // "run.optim.lr"
  std::string was;
  std::string is;
  bool allowed = false;  // among ChangeableKeys
};

// The keys of `run` in which two configurations differ, in the order of the documentation.
std::vector<SettingChange> ChangesOf(const RunConfig& was, const RunConfig& is);

// "run.seed: 1 -> 2", a line each with a line break before it.
std::string DescribeChanges(const std::vector<SettingChange>& changes);

}  // namespace buttress
