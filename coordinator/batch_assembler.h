// Which groups make a batch: first in, first out, with a look-ahead window, and the staleness bound
// asserted a second time.
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
  std::uint64_t oldest_step = 0;  // of the versions that sampled it, if ready
  std::int64_t passed = 0;        // younger groups that have a plan already
};

// Ready groups that are older at `step` than MaxAge(P, S, W) allows (lib/rl/staleness.h); they are
// dropped before a batch is chosen.
std::vector<std::uint64_t> TooOld(std::span<const BatchCandidate> line, std::uint64_t step,
                                  const BatchRules& rules);

// The P oldest ready groups of `line` (all groups without a plan, in admission order), or nothing
// while there are fewer or one that is not ready would be passed by more than W - 1 younger groups,
// those of earlier plans included. Pure: the same line gives the same batch.
std::optional<std::vector<std::uint64_t>> AssembleBatch(std::span<const BatchCandidate> line,
                                                        std::uint64_t step,
                                                        const BatchRules& rules);

}  // namespace buttress
