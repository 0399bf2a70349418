// The configuration of a simulated run, which follows from its seed.
#pragma once

#include <cstdint>

#include "tests/simulation/coordinator_node.h"

namespace buttress::simulation {

// Its prompts live as long as the program.
RunSetup MakeSetup(std::uint64_t seed);

// How many workers the run has.
std::size_t WorkersOf(std::uint64_t seed);

// Whether its weights follow from the configuration alone, whatever goes wrong.
bool IsRepeatable(const RunSetup& setup);

}  // namespace buttress::simulation
