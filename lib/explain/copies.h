// Finds copies and near copies within a group. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/explain/facts.h"

namespace buttress {

struct GroupCopies {
  std::int64_t known = 0;     // completions whose text is known
  std::int64_t distinct = 0;  // distinct texts
  std::int64_t most = 0;      // completions with the most frequent text
  std::int64_t copied = 0;    // completions that equal another completion
  std::int32_t words = 0;     // words of the longest copied text, or of the longest text
  double similarity = 0;      // mean over pairs of completions; 1 for equal texts
  // Probability that independent samples give as many copies, under the sampler's log-probs;
  // nullopt without copies or without log-probs.
  std::optional<double> chance;

  double copied_share() const {
    return known == 0 ? 0.0 : static_cast<double>(copied) / static_cast<double>(known);
  }
};

GroupCopies FindCopies(const GroupFacts& group);

}  // namespace buttress
