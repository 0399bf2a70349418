#include "lib/rl/advantage/scorable_rows.h"

namespace buttress {

ScorableRows::ScorableRows(const AdvantageInput& input)
    : whole_rows_(input.rewards.size()), group_offsets_{0}, input_(input) {
  const std::size_t components = whole_rows_ == 0 ? 0 : input.components.size() / whole_rows_;
  std::size_t row = 0;
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    for (; row < static_cast<std::size_t>(input.group_offsets[k + 1]); ++row) {
      if (!IsScorable(input.raw_rewards[row], input.outcomes, row)) continue;
      rows_.push_back(row);
      rewards_.push_back(input.rewards[row]);
      raw_rewards_.push_back(input.raw_rewards[row]);
      if (!input.outcomes.empty()) outcomes_.push_back(input.outcomes[row]);
      lengths_.push_back(input.lengths[row]);
      const auto parts = input.components.subspan(row * components, components);
      components_.insert(components_.end(), parts.begin(), parts.end());
    }
    group_offsets_.push_back(static_cast<std::int32_t>(rows_.size()));
  }
  input_.rewards = rewards_;
  input_.raw_rewards = raw_rewards_;
  input_.outcomes = outcomes_;
  input_.components = components_;
  input_.lengths = lengths_;
  input_.group_offsets = group_offsets_;
}

std::vector<double> ScorableRows::Spread(const std::vector<double>& of_scorable) const {
  std::vector<double> values(whole_rows_, 0.0);
  for (std::size_t i = 0; i < rows_.size(); ++i) values[rows_[i]] = of_scorable[i];
  return values;
}

}  // namespace buttress
