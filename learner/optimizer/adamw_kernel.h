// CPU kernel of stochastic AdamW (lib/collectives/cuda/stochastic_adamw.h).
//
// The kernel does not use torch. It is compiled for several instruction sets, one of which is
// chosen at run time. It is single-threaded; callers divide the values among threads.
#pragma once

#include "lib/collectives/cuda/stochastic_adamw.h"

namespace buttress {

// Makes one update of all values of the range, in the memory of the host.
void StochasticAdamWOnCpu(const AdamWRange& range);

}  // namespace buttress
