// What the commands of `rollout_worker` have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "lib/base/report/status.h"

namespace buttress {

// Parses the command line, runs `action`, prints its error and returns the exit code.
int RunCommand(CLI::App& app, int argc, char** argv, const std::function<Status()>& action);

}  // namespace buttress
