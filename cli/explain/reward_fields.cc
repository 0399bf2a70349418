#include "cli/explain/reward_fields.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/explain/dump_row.h"
#include "lib/base/text/reward_bounds.h"

namespace buttress {
namespace {

constexpr const char* kWithoutVerdict =
    "so equal rewards count neither as correct nor as wrong; --reward NAME names the one that "
    "decides";

bool IsTrl(const Dialect& dialect) { return dialect.name == "trl"; }

// The field that holds the reward before shaping, if there are two.
std::string FieldOf(const Dialect& dialect, const std::map<std::string, FieldValues>& values) {
  const std::string raw(dialect.raw_reward);
  return values.contains(raw) ? raw : std::string(dialect.reward);
}

std::string NoOutcome(const std::string& field, const FieldValues& values) {
  return fmt::format(
      "{}, from {:g} to {:g}, is neither an outcome, such as 0 and 1, nor within [0, 1]", field,
      values.low(), values.high());
}

}  // namespace

void FieldValues::Add(double value) {
  if (std::abs(value) > kMaxReward) return;  // of a completion that counts as unscorable
  if (count_ == 0) low_ = high_ = value;
  const bool known = count_ > 0 && (EqualRewards(value, low_) || EqualRewards(value, high_));
  if (count_ < 3 && !known) ++count_;
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

void RewardSurvey::Add(const nlohmann::json& row) {
  const auto add = [&](const std::string& field) {
    const auto found = row.find(field);
    if (found == row.end()) return;
    if (found->is_number()) values_[field].Add(found->get<double>());
    if (found->is_boolean()) values_[field].Add(found->get<bool>() ? 1 : 0);
  };
  if (!row.is_object()) return;
  if (!named_.empty()) {
    std::ranges::for_each(named_, add);
    for (const auto& [field, value] : row.items())
      if (value.is_number() || value.is_boolean()) numbers_.insert(field);
  } else if (IsTrl(dialect_)) {
    std::map<std::string, double> columns;
    for (const auto& [field, value] : row.items()) {
      if (!value.is_number() || field == "step" || field == "advantage") continue;
      columns[field] = value.get<double>();
      add(field);
    }
    fit_.Add(row, columns);
  } else {
    add(std::string(dialect_.reward));
    add(std::string(dialect_.raw_reward));
    const auto outcome = row.find(dialect_.outcome);
    has_outcomes_ = has_outcomes_ || (outcome != row.end() && !outcome->is_null());
  }
}

bool RewardSurvey::settled() const {
  if (!named_.empty() || IsTrl(dialect_)) return false;
  const auto many = [](const auto& field) {
    return field.second.is_many() && !field.second.is_credit();
  };
  return has_outcomes_ || dialect_.name == "groups" ||
         (!values_.empty() && std::ranges::all_of(values_, many));
}

Result<RewardRule> RewardSurvey::Finish() {
  if (!named_.empty() && dialect_.name == "groups")
    return InvalidArgument(fmt::format(
        "--reward {}: rows of whole groups have one reward, rewards; leave --reward out",
        named_[0]));
  for (const std::string& field : named_) {
    if (values_.contains(field)) continue;
    return InvalidArgument(
        fmt::format("--reward {}: no row has a number there; rows have numbers in {}", field,
                    fmt::join(numbers_, ", ")));
  }
  if (IsTrl(dialect_)) return RuleOfColumns();
  return RuleOfField();
}

// Leaves the columns to which the advantages give a weight. Returns what the raw reward is, which
// may be empty for one column.
std::string RewardSurvey::UseWeights(RewardRule& rule) {
  const AdvantageFit::Weights found = named_.empty() ? fit_.Finish() : AdvantageFit::Weights{};
  std::vector<std::string> sum, others;
  std::vector<std::string> columns = named_;
  for (const auto& [field, values] : values_)
    if (named_.empty()) columns.push_back(field);
  for (const std::string& field : columns) {
    const auto of_column = found.of_column.find(field);
    const double weight = of_column == found.of_column.end() ? 1.0 : of_column->second;
    if (weight == 0) {
      others.push_back(field);
      rule.values.erase(field);
      continue;
    }
    rule.fields.push_back(field);
    rule.weights.push_back(weight);
    sum.push_back(weight == 1 ? field : fmt::format("{:.4g} {}", weight, field));
  }
  if (sum.size() <= 1 && others.empty()) return "";
  std::string text = fmt::format("the raw reward is {}", fmt::join(sum, " + "));
  if (!found.known) text += ", each with weight 1";
  if (found.known) text += ": these weights give the advantages";
  if (found.excluded) text += ", though no sum of the columns gives the advantages";
  if (!others.empty()) text += fmt::format(", so {} is no reward", fmt::join(others, ", "));
  return text;
}

// TRL logs a column for each reward function, no weights, and the columns of log_extra.
RewardRule RewardSurvey::RuleOfColumns() {
  RewardRule rule{.deciding = named_, .values = values_};
  rule.remark = UseWeights(rule);
  if (rule.fields.empty())
    rule.remark =
        "no column has numbers besides step and advantage, so no completion has a verdict";
  if (rule.fields.size() <= 1) {
    const FieldValues* values = rule.fields.empty() ? nullptr : &rule.values.at(rule.fields[0]);
    const bool outcome = values != nullptr && values->is_outcome();
    if (named_.empty() && outcome) rule.deciding = rule.fields;
    rule.judged = !named_.empty() || values == nullptr || outcome || values->is_credit();
    if (!rule.judged) {
      rule.remark += (rule.remark.empty() ? "" : "; ") + NoOutcome(rule.fields[0], *values) + ", " +
                     kWithoutVerdict;
    }
    return rule;
  }
  if (!named_.empty()) {
    rule.remark += fmt::format("; {} decides what is right, where it applies", named_[0]);
    return rule;
  }
  std::vector<std::string> candidates;
  bool never = false;
  for (const auto& [field, values] : rule.values) {
    if (values.is_outcome()) candidates.push_back(field);
    never = never || values.never_positive();
  }
  rule.judged = candidates.size() == 1 && !never;
  if (rule.judged) {
    const FieldValues& values = rule.values.at(candidates[0]);
    rule.remark += fmt::format(
        "; {} decides what is right, because no other column has two values ({:g} and "
        "{:g}); --reward NAME names another",
        candidates[0], values.low(), values.high());
    rule.deciding = std::move(candidates);
  } else {
    rule.remark +=
        fmt::format("; more than one column, or none, may be the outcome, {}", kWithoutVerdict);
  }
  return rule;
}

RewardRule RewardSurvey::RuleOfField() const {
  RewardRule rule{.deciding = named_, .values = values_};
  rule.outcomes = has_outcomes_ && named_.empty();
  const std::string field = FieldOf(dialect_, values_);
  const auto values = values_.find(field);
  if (!named_.empty() || has_outcomes_ || values == values_.end()) return rule;
  if (values->second.is_outcome()) {
    rule.deciding = {field};
  } else if (!values->second.is_credit()) {
    rule.judged = false;
    rule.remark = fmt::format("{}, and no field {} says what is right, {}",
                              NoOutcome(field, values->second), dialect_.outcome, kWithoutVerdict);
  }
  return rule;
}

}  // namespace buttress
