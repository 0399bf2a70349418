// Collects every broken rule of a configuration, for the parts of ValidateRunConfig.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/bind.h"

namespace buttress {

class Rules {
 public:
  explicit Rules(const RunConfig& config) : settings_(ListSettings(config)) {}

  // Every key is in `section` from here on: In("run.algorithm.") makes "eps" mean
  // run.algorithm.eps.
  void In(const std::string& section) { section_ = section; }

  // Records "run.sampling.temperature = 0: <expected and fix>" unless `holds`.
  void Require(bool holds, const std::string& key, const std::string& expected) {
    if (holds) return;
    const auto setting = std::ranges::find(settings_, section_ + key, &Setting::key);
    RequireOf(false, key, setting == settings_.end() ? "" : setting->value, expected);
  }

  // The same for `value`, an element of the setting.
  void RequireOf(bool holds, const std::string& key, const std::string& value,
                 const std::string& expected) {
    if (!holds) broken_ += "\n  " + section_ + key + " = " + value + ": " + expected;
  }

  template <class T>
  void Between(const std::string& key, T value, std::type_identity_t<T> least,
               std::type_identity_t<T> most) {
    Require(value >= least && value <= most, key,
            "between " + ToText(least) + " and " + ToText(most));
  }

  // Records the settings whose keys begin with `section` that are outside their limits.
  void CheckLimits(const std::string& section = "") {
    for (const Setting& setting : settings_)
      if (!setting.absent && setting.key.starts_with(section)) broken_ += setting.broken;
  }

  Status Verdict() const {
    if (broken_.empty()) return OkStatus();
    return InvalidArgument("settings that cannot be used:" + broken_);
  }

 private:
  const std::vector<Setting> settings_;
  std::string section_;
  std::string broken_;
};

// Whether the verifier is in a sum of the reward (validate.cc). A text that is no sum names none,
// and breaks a rule of its own.
bool NamesVerifier(const RewardConfig& reward, std::string_view name);

// Rules of run.algorithm (validate_algorithm.cc).
void CheckAlgorithm(const AlgorithmConfig& algorithm, Rules& rules);

// Rules between run.algorithm and the rest of the run.
void CheckAlgorithmOfRun(const RunSettings& run, Rules& rules);

// Rules of run.env, and between it and the rest of the run (validate_env.cc).
void CheckEnv(const RunSettings& run, Rules& rules);

// Rules of local, and between it and the run (validate_local.cc).
void CheckLocal(const RunConfig& config, Rules& rules);

}  // namespace buttress
