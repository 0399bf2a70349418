// A batch without its unscorable completions, so that no estimator has to leave them out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/rl/advantage/advantage.h"

namespace buttress {

// Owns copies of the scorable rows of a batch; groups keep their number and may be empty.
class ScorableRows {
 public:
  // REQUIRES: CheckBatch(input) is OK.
  explicit ScorableRows(const AdvantageInput& input);
  ScorableRows(const ScorableRows&) = delete;  // input() views this object's rows
  ScorableRows& operator=(const ScorableRows&) = delete;

  // The batch of the scorable rows. Valid while this object and the spans of the input over groups
  // live.
  const AdvantageInput& input() const { return input_; }

  // [N] values of the whole batch: that of its scorable row for each row, 0 for an unscorable one.
  std::vector<double> Spread(const std::vector<double>& of_scorable) const;

 private:
  std::size_t whole_rows_;
  std::vector<std::size_t> rows_;  // [M] row of the whole batch
  std::vector<double> rewards_, raw_rewards_, components_;
  std::vector<Outcome> outcomes_;
  std::vector<std::int32_t> lengths_, group_offsets_;
  AdvantageInput input_;
};

}  // namespace buttress
