// How alike and how well formed the responses of a group are. A model that was fitted to a format
// gives few distinct responses, all of them well formed.
#pragma once

#include <cstdint>

#include "lib/experience/types.h"

namespace buttress {

// Counts add up over groups.
struct ResponseProbe {
  std::int64_t responses = 0;  // scorable
  std::int64_t distinct = 0;   // different token sequences among them, within their group
  std::int64_t formatted = 0;  // with an answer that the verifier could extract

  void Add(const Group& group);

  // 0 without responses.
  double distinct_share() const;
  double format_share() const;
};

}  // namespace buttress
