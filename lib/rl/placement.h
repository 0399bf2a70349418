// Where the step's completions run: groups on ranks, completions in micro-batches. Torch-free, pure
// and deterministic, so that every rank could compute the same placement; rank 0 does and broadcasts
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// What one completion costs and whether it has to be run.
struct CompletionLoad {
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;  // trained or not
  std::int32_t trained_tokens = 0;
  bool scorable = true;
  bool has_advantage = true;  // its advantage is not exactly 0

  // Tokens of its forward pass.
  std::int64_t forward_tokens() const {
    return static_cast<std::int64_t>(prompt_tokens) + completion_tokens;
  }
};

struct PlacementOptions {
  std::int32_t ranks = 1;
  std::int64_t micro_batch_tokens = 16384;
  // Groups whose advantages are all zero have no gradient unless the KL or entropy coefficient is
  // positive; false leaves them out.
  bool run_zero_advantage_groups = false;
};

struct MicroBatch {
  std::vector<std::int32_t> completions;  // rows of the batch, rising
  std::int64_t forward_tokens = 0;
};

struct Placement {
  std::vector<std::int32_t> rank_of_group;             // [K]; -1: nothing of it is run
  std::vector<std::vector<MicroBatch>> micro_batches;  // [ranks]
  // Most micro-batches of any rank: the number of rounds that every rank goes through, with nothing
  // to run in those it has none for.
  std::int32_t rounds = 0;

  // Forward tokens of a rank.
  std::int64_t rank_tokens(std::int32_t rank) const;
};

// Packs N completions in K groups; group k owns rows [group_offsets[k], group_offsets[k+1]).
//
// What is run: scorable completions with trained tokens, of groups that have an advantage (or of
// all groups, see PlacementOptions). Each of them is in exactly one micro-batch of one rank; the others
// are in none, and the caller's denominators still count them. Ranks: whole groups, so that a rank
// fetches each of its groups once. Longest processing time first (Graham 1969): groups by falling
// forward tokens, each to the rank with the fewest so far; the heaviest rank is at most 4/3 of the
// best possible. Micro-batches: first fit by falling length, at most micro_batch_tokens forward
// tokens each; a longer completion goes alone. Ties go to the smaller index. kInvalidArgument for
// offsets, sizes or options that make no sense.
Result<Placement> PlaceGroups(std::span<const CompletionLoad> completions,
                              std::span<const std::int32_t> group_offsets,
                              const PlacementOptions& options);

}  // namespace buttress
