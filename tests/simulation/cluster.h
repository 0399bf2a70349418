// A cluster in one process: the coordinator, workers, a learner job and an operator, on one disk
// and one network, through the faults of a schedule and to the end of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/learner_process.h"
#include "tests/simulation/network.h"
#include "tests/simulation/worker_process.h"
#include "tests/support/temp_dir.h"

namespace buttress::simulation {

struct RunOutcome {
  std::string failure;  // what does not hold; empty if all does
  Coverage coverage;
  std::int64_t simulated_ms = 0;
  std::int64_t events = 0;
  std::string weights;  // at the end
};

// Faults come within this time; afterwards the run has kEndMs to end.
inline constexpr std::int64_t kFaultMs = 30000;
inline constexpr std::int64_t kEndMs = 600000;

// Runs the cluster of `seed` through `schedule`. Lines of its story go to `story`, which may be
// empty. One at a time in a process.
RunOutcome RunCluster(std::uint64_t seed, const std::vector<ScheduledFault>& schedule,
                      const std::function<void(const std::string&)>& story);

}  // namespace buttress::simulation
