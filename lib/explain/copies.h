// Copies and near copies inside a group. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/explain/facts.h"

namespace buttress {

struct GroupCopies {
  std::int64_t known = 0;        // completions whose text is known
  std::int64_t distinct = 0;     // texts
  std::int64_t most = 0;         // completions with the most frequent text
  std::int64_t copied = 0;       // completions that have an equal one
  std::int32_t words = 0;        // of the longest copied text; of the longest text where none is
  double similarity = 0;         // mean over pairs of completions; 1 for equal ones
  std::optional<double> chance;  // that independent draws give as many copies, under the sampler's
                                 // log-probs; none: unknown or no copies

  double copied_share() const {
    return known == 0 ? 0.0 : static_cast<double>(copied) / static_cast<double>(known);
  }
};

GroupCopies FindCopies(const GroupFacts& group);

}  // namespace buttress
