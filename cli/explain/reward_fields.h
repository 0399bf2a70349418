// Which fields of a dump form the reward of a completion, and which of them says whether it is
// right. A sum of several says nothing about that: an answer that is wrong in the right format has
// the sum 1 as well.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/explain/reward_weights.h"
#include "lib/base/report/status.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

struct Dialect;

// The values of a field over the rows of a dump. Not thread-safe.
class FieldValues {
 public:
  void Add(double value);

  // Whether there are two values, of which the larger one alone is positive: 0 and 1, -1 and 1.
  bool is_outcome() const {
    return count_ == 2 && low_ <= kRewardTolerance && high_ > kRewardTolerance;
  }

  // Whether it is 0 or less in every row, as an outcome that is never right is.
  bool never_positive() const { return count_ > 0 && high_ <= kRewardTolerance; }

  // Whether 0 and 1 can be wrong and correct: they are the ends of what may be partial credit, or
  // there is one value alone.
  bool is_credit() const {
    return count_ <= 1 || (low_ >= -kRewardTolerance && high_ <= 1 + kRewardTolerance);
  }

  bool is_many() const { return count_ > 2; }

  double low() const { return low_; }

  double high() const { return high_; }

  double middle() const { return (low_ + high_) / 2; }

 private:
  int count_ = 0;  // of values that are not EqualRewards, up to 3
  double low_ = 0, high_ = 0;
};

// The rule by which the rewards of a dump are read.
struct RewardRule {
  std::vector<std::string> fields = {};  // TRL: whose weighted sum is the raw reward
  std::vector<double> weights = {};      // TRL: of the fields
  // The first of them that a row has decides; none: the outcome of the row or, if `judged`, the
  // reward itself decides.
  std::vector<std::string> deciding = {};
  std::map<std::string, FieldValues> values = {};  // of the fields above
  bool judged = true;                              // whether something says what is right
  bool outcomes = false;    // whether the field of the dialect for the outcome decides
  std::string remark = {};  // what was assumed, a sentence; may be empty
};

// Finds the rule by looking at the rows of a dump before they are read. Not thread-safe.
class RewardSurvey {
 public:
  // `named` are the fields that the user named (--reward); `dialect` outlives the survey.
  RewardSurvey(const Dialect& dialect, std::vector<std::string> named)
      : dialect_(dialect), named_(std::move(named)) {}

  void Add(const nlohmann::json& row);

  // Whether no further row can change the rule.
  bool settled() const;

  // kInvalidArgument for a named field that has no number in any row, with those that have.
  Result<RewardRule> Finish();

 private:
  RewardRule RuleOfColumns();
  RewardRule RuleOfField() const;
  std::string UseWeights(RewardRule& rule);

  const Dialect& dialect_;
  const std::vector<std::string> named_;
  std::map<std::string, FieldValues> values_;
  AdvantageFit fit_;               // of TRL's columns, if none are named
  std::set<std::string> numbers_;  // fields with numbers, if fields are named
  bool has_outcomes_ = false;      // rows have the field of the dialect that says what is right
};

}  // namespace buttress
