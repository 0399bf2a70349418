// Which checkpoint of another run a new run begins with.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// The run that --from names.
struct ForkSource {
  std::string folder;
  std::int64_t step = 0;  // of the checkpoint to begin with
  bool newest = false;    // no step was named
  std::string run_id;     // of that checkpoint
  std::string note;       // what is to be said of the choice; empty: nothing

  std::string checkpoint() const;
};

// Finds the checkpoint that `from` names: RUN@STEP, or RUN for the newest one that the ledger of
// the run knows. The ledger does not know what a learner that was replaced wrote, nor what a killed
// learner had not reported; the note names such a checkpoint that is passed over, or taken because
// its step is named. Where there is no ledger to read, the newest one is taken, and the note says
// so. kInvalidArgument if there is no checkpoint, or none that the ledger knows.
Result<ForkSource> FindForkSource(const std::string& from);

// Reads the state of a checkpoint.
Result<nlohmann::ordered_json> ReadCheckpointState(const std::string& checkpoint);

}  // namespace buttress
