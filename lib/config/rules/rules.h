// Collects every broken rule of a configuration, for the parts of ValidateRunConfig.
#pragma once

#include <cmath>
#include <concepts>
#include <string>

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
    Require(value >= least && IsFinite(value), key, value, ToText(least) + " or more");
  }

  template <class T>
  void Between(const std::string& key, T value, std::type_identity_t<T> least,
               std::type_identity_t<T> most) {
    Require(value >= least && value <= most, key, value,
            "between " + ToText(least) + " and " + ToText(most));
  }

  void Above0(const std::string& key, double value) {
    Require(value > 0 && IsFinite(value), key, value, "above 0");
  }

  // In (0, 1].
  void Share(const std::string& key, double value) {
    Require(value > 0 && value <= 1, key, value, "above 0 and at most 1");
  }

  void Finite(const std::string& key, double value) {
    Require(IsFinite(value), key, value, "a finite number");
  }

  // Adds what `part` found.
  void Add(const Rules& part) { broken_ += part.broken_; }

  Status Verdict() const {
    if (broken_.empty()) return OkStatus();
    return InvalidArgument("settings that cannot be used:" + broken_);
  }

 private:
  template <class T>
  static bool IsFinite(T value) {
    if constexpr (std::floating_point<T>) return std::isfinite(value);
    return true;
  }

  std::string section_;
  std::string broken_;
};

// Most tokens of a prompt or of a completion; the codec of lib/experience refuses longer ones.
inline constexpr std::int64_t kMaxTokens = 1 << 20;

// Longest time that a setting may ask for.
inline constexpr std::int64_t kDayMs = 86400000;

// run.data (validate_data.cc).
Rules CheckData(const RunSettings& run);

// run.reward (validate_reward.cc).
Rules CheckReward(const RewardConfig& reward);

// run.algorithm (validate_algorithm.cc).
Rules CheckAlgorithm(const AlgorithmConfig& algorithm);

// Rules between run.algorithm and the rest of the run.
Rules CheckAlgorithmOfRun(const RunSettings& run);

// local, and rules between it and the run (validate_local.cc).
Rules CheckLocal(const RunConfig& config);

}  // namespace buttress
