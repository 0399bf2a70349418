// `buttress page RUN`, also used at the end of `buttress launch`.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Writes the page of the run in config.local.out, which may be at work, to the HTML file `path`:
// what the coordinator serves, and the causes for which groups gave no signal. Errors as
// LedgerReader::Open and WriteFileAtomic.
Status WriteRunPage(const RunConfig& config, const std::string& path);

}  // namespace buttress
