// Collects what is wrong with a configuration, for the parts of ValidateRunConfig.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "lib/base/status.h"
#include "lib/config/bind.h"

namespace buttress {

class Rules {
 public:
  // Breaks unless `holds`: "run.sampling.temperature = 0: <expected and mend>".
  template <class T>
  void Require(bool holds, const std::string& key, const T& value, const std::string& expected) {
    if (!holds) broken_ += "\n  " + key + " = " + ToText(value) + ": " + expected;
  }

  void OneOf(const std::string& key, const std::string& value,
             std::initializer_list<const char*> choices) {
    std::string expected = "choose one of:";
    for (const char* choice : choices)
      expected += (choice == *choices.begin() ? " " : ", ") + std::string(choice);
    Require(std::find(choices.begin(), choices.end(), value) != choices.end(), key, value,
            expected);
  }

  Status Verdict() const {
    if (broken_.empty()) return OkStatus();
    return InvalidArgument("settings that cannot be used:" + broken_);
  }

 private:
  std::string broken_;
};

// Of a prompt or completion; lib/experience/codec.h refuses longer ones.
inline constexpr std::int64_t kMaxTokens = 1 << 20;

// run.reward (validate_reward.cc).
void CheckReward(const RewardConfig& reward, Rules& rules);

// run.algorithm: the estimators (validate_estimator.cc).
void CheckEstimators(const AlgorithmConfig& algorithm, Rules& rules);

// run.algorithm: the loss and what belongs to it (validate_loss.cc).
void CheckLoss(const AlgorithmConfig& algorithm, Rules& rules);

// Rules between the loss and the rest of the run.
void CheckLossOfRun(const RunSettings& run, Rules& rules);

// local, and rules between it and the run (validate_local.cc).
void CheckLocal(const RunConfig& config, Rules& rules);

}  // namespace buttress
