// Collects every broken rule of a configuration, for the parts of ValidateRunConfig.
#pragma once

#include <string>
#include <type_traits>

#include "lib/base/report/status.h"
#include "lib/config/bind.h"

namespace buttress {

class Rules {
 public:
  // Every key is in `section`: Rules("run.algorithm.") makes "eps" mean run.algorithm.eps.
  explicit Rules(std::string section = "") : section_(std::move(section)) {}

  // Records "run.sampling.temperature = 0: <expected and fix>" unless `holds`.
  template <class T>
  void Require(bool holds, const std::string& key, const T& value, const std::string& expected) {
    if (!holds) broken_ += "\n  " + section_ + key + " = " + ToText(value) + ": " + expected;
  }

  template <class T>
  void AtLeast(const std::string& key, T value, std::type_identity_t<T> least) {
    Require(value >= least, key, value, ToText(least) + " or more");
  }

  template <class T>
  void Between(const std::string& key, T value, std::type_identity_t<T> least,
               std::type_identity_t<T> most) {
    Require(value >= least && value <= most, key, value,
            "between " + ToText(least) + " and " + ToText(most));
  }

  // Records the settings of the section that are outside their limits.
  void CheckLimits(const RunConfig& config) {
    for (const Setting& setting : ListSettings(config))
      if (!setting.absent && setting.key.starts_with(section_)) broken_ += setting.broken;
  }

  // Adds what `part` found.
  void Add(const Rules& part) { broken_ += part.broken_; }

  Status Verdict() const {
    if (broken_.empty()) return OkStatus();
    return InvalidArgument("settings that cannot be used:" + broken_);
  }

 private:
  std::string section_;
  std::string broken_;
};

// run.algorithm (validate_algorithm.cc).
Rules CheckAlgorithm(const AlgorithmConfig& algorithm);

// Rules between run.algorithm and the rest of the run.
Rules CheckAlgorithmOfRun(const RunSettings& run);

// local, and rules between it and the run (validate_local.cc).
Rules CheckLocal(const RunConfig& config);

}  // namespace buttress
