// Runs many seeds, each in a process that may die, and looks for the smallest story of one that
// fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/cluster.h"

namespace buttress::simulation {

// Runs the cluster of a seed, through those faults of its schedule that `only` names if it does,
// and checks that its weights are those of an undisturbed run where they must be.
RunOutcome RunSeed(std::uint64_t seed, const std::optional<std::set<std::size_t>>& only,
                   const std::function<void(const std::string&)>& story);

struct SweepOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 1;
  std::size_t processes = 1;
};

struct SweepResult {
  std::uint64_t seeds = 0;  // that were run
  std::optional<std::uint64_t> failed;
  std::string failure;
  Coverage coverage;
  std::int64_t simulated_ms = 0;
  std::int64_t events = 0;
};

// Stops at the first seed that fails.
SweepResult Sweep(const SweepOptions& options);

// Leaves faults out of the schedule of a seed that fails, one after the other, as long as it still
// fails. Returns the indices of those that are left.
std::set<std::size_t> Shrink(std::uint64_t seed);

// Runs one seed in a process of its own, and prints its story if `tells`. Returns its failure.
std::string Replay(std::uint64_t seed, const std::optional<std::set<std::size_t>>& only,
                   bool tells);

}  // namespace buttress::simulation
