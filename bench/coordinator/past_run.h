// A ledger of a run that is far along, written through the library.
#pragma once

#include <cstdint>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Writes <out>/ledger.db and <out>/payloads as a run of `config` leaves them that has settled
// `groups` groups of two completions, with payloads of a few bytes; with a selection, also the
// records of their prompts. The groups are the first rows of the dataset in the order of the file,
// which has prompts "prompt-0", "prompt-1", ...
Status WritePastRun(const RunConfig& config, std::int64_t groups);

}  // namespace buttress
