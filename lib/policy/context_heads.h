// How the ranks of a context group divide the attention heads of a model (lib/policy/
// context_group.h). Without torch.
#pragma once

#include <cstdint>

#include "lib/base/report/status.h"
#include "lib/policy/model_config.h"

namespace buttress {

// The heads of each of `ranks`: a part of the query heads and of the key-value heads, or one
// key-value head, which several ranks then share. REQUIRES: CheckContext.
inline AttentionSpec HeadsOfRank(AttentionSpec spec, std::int64_t ranks) {
  spec.H /= ranks;
  spec.K = spec.K < ranks ? 1 : spec.K / ranks;
  return spec;
}

// Checks that a job of `ranks` can form context groups of `size`, and that each rank of a group
// gets equally many heads of `model`. kInvalidArgument says what to change.
Status CheckContext(const ModelConfig& model, std::int64_t size, std::int64_t ranks);

}  // namespace buttress
