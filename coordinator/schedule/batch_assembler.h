// Chooses the groups of a plan: first in, first out, with a look-ahead window. The staleness bound
// is checked here a second time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace buttress {

struct BatchRules {
  std::int64_t prompts = 1;  // P, groups of a step
  std::int64_t max_age = 1;  // S
  std::int64_t window = 1;   // W
};

// A group that has no plan yet.
struct BatchCandidate {
  std::uint64_t group_id = 0;
  bool ready = false;
  std::uint64_t oldest_step = 0;  // if ready, of the oldest version that sampled it
  std::int64_t passed = 0;        // younger groups that already have a plan
};

// Returns whether a group of `oldest_step` is older at `step` than MaxAge(P, S, W) allows
// (lib/rl/staleness.h).
bool IsTooOld(std::uint64_t oldest_step, std::uint64_t step, const BatchRules& rules);

// Returns the ready groups that are too old at `step`. The scheduler drops them before it chooses a
// plan.
std::vector<std::uint64_t> TooOld(std::span<const BatchCandidate> line, std::uint64_t step,
                                  const BatchRules& rules);

// Returns the P oldest ready groups of `line` (all groups without a plan, in admission order), or
// nullopt while there are fewer, or while a group that is not ready would be passed by more than
// W - 1 younger groups, those of earlier plans included. Pure: the same line gives the same plan.
std::optional<std::vector<std::uint64_t>> AssembleBatch(std::span<const BatchCandidate> line,
                                                        std::uint64_t step,
                                                        const BatchRules& rules);

}  // namespace buttress
