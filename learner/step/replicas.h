// The check that the ranks of a job hold the same weights. Torch.
#pragma once

#include <chrono>
#include <cstdint>

#include "learner/optimizer/optimizer.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// Returns a number that changes with any one bit of the tensors, and with the order of their names
// but not of their elements.
std::int64_t DigestOf(const NamedTensors& tensors);

// Compares the digests of all ranks; every rank calls it and gets the same answer. kDataLoss names
// the first rank whose tensors `what` differ from those of rank 0.
Status CompareReplicas(const std::string& what, const NamedTensors& tensors, Collective& control,
                       std::chrono::milliseconds timeout);

}  // namespace buttress
