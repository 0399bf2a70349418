// Whether anything of a run goes on, for commands that change its files.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// kFailedPrecondition if a `buttress launch` has one of the folders, or if the learner writes a
// checkpoint in `learner_folder`; `then` says what to do once the run is stopped. A coordinator is
// found by Ledger::Open.
Status CheckIsStopped(const std::string& folder, const std::string& learner_folder,
                      std::string_view then);

}  // namespace buttress
