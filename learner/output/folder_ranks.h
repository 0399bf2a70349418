// What the ranks of a job agree on about a folder of rank 0.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"

namespace buttress {

// Returns the status of the first rank whose `own` is an error, on every rank.
Status AgreeOn(const Status& own, Collective& control, std::chrono::milliseconds timeout);

// Returns by rank whether it sees in its `folder` the files of rank 0, which creates it; ranks on
// other machines may not. Every rank gets the same answer.
Result<std::vector<bool>> RanksThatSee(const std::string& folder, Collective& control,
                                       std::chrono::milliseconds timeout);

}  // namespace buttress
