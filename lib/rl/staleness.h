// The bound on the age of trained groups, and the number of groups that may be in progress so that
// it holds.
//
// P groups make a step, S is the allowed age (run.batch.max_age), W the look-ahead window
// (run.batch.window). The age of a group is the number of optimizer steps between the version that
// it was sampled from and the version that its step starts from.
//
// Rules.
//   (1) Groups are leased in admission order, g = 0, 1, 2, ...; a group whose lease expires is
//       leased again before younger ones.
//   (2) A group holds a slot from its lease until the version trained on it is announced; at most
//       B = (S + 1) P slots are held.
//   (3) A group is sampled from the version announced when it was leased, or a newer one.
//   (4) The batch assembler lets at most W - 1 younger groups pass a group (W = 1: first in, first
//       out).
//
// Derivation. When g is leased and v versions are announced, g + 1 groups have been leased and v P
// have released their slots, so that g + 1 - v P <= (S + 1) P, hence
//   v >= floor(g / P) - S.
// By (4) at most W - 1 groups pass g, so that g is trained at position g + W - 1 or before, and its
// step starts from version floor((g + W - 1) / P) or before. Its age is therefore at most
//   floor((g + W - 1) / P) - floor(g / P) + S  <=  S + ceil((W - 1) / P).
// A dropped group releases its slot and moves every younger one forward, so that drops only lower
// the age. For S >= 1 the bound is reached; for S = 0 all slots belong to one step, and the age is
// 0 for every W.
//
// Example. P = 4, S = 1: B = 8 slots. Groups 0 - 7 are leased at version 0. Groups 0 - 3 make step
// 1, and 4 - 7 make step 2, which starts from version 1: age 1 = S. Group 8 needs a slot that
// version 1 releases, so that it is leased at version 1 and trains in step 3, from version 2: age
// 1. With W = 3 group 3 can be passed by 4 and 5: it then trains in step 2, from version 1, at age
// 1; group 7, passed by 8 and 9, trains in step 3, from version 2, at age 2 = S + ceil(2 / 4).
//
// After a learner has returned to an older checkpoint, groups that are trained again precede every
// new one but hold no slot; the caller counts them in `taken` of LeaseHeadroom. LeaseHeadroom is
// the same rule (the capacity of AReaL, arXiv 2505.24298) without the assumption that all taken
// positions hold slots.
#pragma once

#include <cstdint>

namespace buttress {

// B: the slots that leased, ready, batched, and trained but not yet announced groups may hold.
constexpr std::int64_t ActiveSlotBudget(std::int64_t prompts, std::int64_t max_age) {
  return (max_age + 1) * prompts;
}

// The largest age of a trained group, in steps. REQUIRES: prompts >= 1, window >= 1.
constexpr std::int64_t MaxAge(std::int64_t prompts, std::int64_t max_age, std::int64_t window) {
  return max_age + (window - 1 + prompts - 1) / prompts;
}

// The number of groups that may be leased now, (S + 1 + version) P - taken; negative means none.
// `version` is the step of the announced version. `taken` counts all groups leased or trained on
// the way to that version and still in line: version * P + active slots + groups to be trained
// again.
constexpr std::int64_t LeaseHeadroom(std::int64_t prompts, std::int64_t max_age,
                                     std::int64_t version, std::int64_t taken) {
  return (max_age + 1 + version) * prompts - taken;
}

static_assert(ActiveSlotBudget(4, 1) == 8);
static_assert(MaxAge(4, 1, 1) == 1);
static_assert(MaxAge(4, 1, 3) == 2);
static_assert(LeaseHeadroom(4, 1, 3, 3 * 4 + 8) == 0);

}  // namespace buttress
