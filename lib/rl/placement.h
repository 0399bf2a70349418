// Placement of a step's work: completions in mini-batches, groups on ranks, completions in
// micro-batches. Pure and deterministic; rank 0 computes the placement and broadcasts it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/config/run_config.h"
#include "lib/rl/micro_batch_shape.h"

namespace buttress {

// The mini-batches of a step, one for each update (Schulman et al., arXiv 1707.06347, Algorithm 1).
// Returns [N], the mini-batch, 0 ... count - 1, of each completion: prompts with their groups, or
// single completions, in the random order of `key`, cut into `count` mini-batches whose sizes
// differ by at most one. Group k owns rows [group_offsets[k], group_offsets[k + 1]). Pure.
// REQUIRES: count >= 1.
std::vector<std::int32_t> DrawMiniBatches(std::span<const std::int32_t> group_offsets,
                                          std::int32_t count, MiniBatchOf of, RandomKey key);

// The cost of one completion, and whether and where it has to be run.
struct CompletionLoad {
  std::int32_t prompt_tokens = 0;      // the same for all completions of a group
  std::int32_t completion_tokens = 0;  // trained or not
  std::int32_t trained_tokens = 0;
  bool scorable = true;
  bool has_advantage = true;  // the advantage is not exactly 0
  std::int32_t update = 0;    // the update whose mini-batch it is in
};

struct PlacementOptions {
  std::int32_t ranks = 1;
  std::int32_t updates = 1;
  std::int64_t micro_batch_tokens = 16384;
  MicroBatchBound bound = {};
  // Whether groups whose advantages are all 0 are run; they have a gradient only if the KL or the
  // entropy coefficient is above 0.
  bool run_zero_advantage_groups = false;
};

// Completions that run together.
struct PlacedRows {
  std::vector<std::int32_t> completions;  // rows of the plan, ascending
  std::int64_t forward_tokens = 0;        // completions, and the prompt of each group once
};

struct UpdatePlacement {
  std::vector<std::vector<PlacedRows>> micro_batches;  // [ranks]
  // Rounds that every rank takes part in: the largest number of micro-batches of any rank. A rank
  // without a micro-batch for a round has nothing to run in it.
  std::int32_t rounds = 0;
};

struct Placement {
  std::vector<std::int32_t> rank_of_group;  // [K]; -1: no completion of the group is run
  std::vector<UpdatePlacement> updates;     // [updates]
};

// Places N completions in K groups; group k owns rows [group_offsets[k], group_offsets[k + 1]).
//
// Which completions are run: scorable ones with trained tokens, of groups that have an advantage
// (or of all groups, see PlacementOptions). Each is in exactly one micro-batch of one rank, in its
// update. The others are in none, and the caller's denominators still count them.
//
// Ranks: whole groups, so that a rank fetches each of its groups once, whatever the number of
// updates. Longest processing time first (Graham 1969): groups by descending forward tokens, each
// to the rank that so far has the fewest in the updates of the group. Where every group is in one
// update, the heaviest rank has at most 4/3 of the least possible load of an update.
//
// Micro-batches: at most micro_batch_tokens forward tokens each, and no more bytes than `bound`; a
// completion that exceeds either with its prompt is alone in its micro-batch. The completions of a
// group stay together, because they share the forward pass of the prompt: a group that fits is
// placed whole, first fit by descending size; a longer group is cut into pieces that are filled in
// the same way. Ties go to the smaller index.
//
// REQUIRES: the options are at least 1; the completions of a group have one prompt, and no more
// trained tokens than tokens.
Placement PlaceGroups(std::span<const CompletionLoad> completions,
                      std::span<const std::int32_t> group_offsets, const PlacementOptions& options);

}  // namespace buttress
