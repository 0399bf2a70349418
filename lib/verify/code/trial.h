// Runs the program of a response with its tests, in a sandbox (lib/verify/sandbox/).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/config/sections/reward_config.h"
#include "lib/verify/code/tests.h"
#include "lib/verify/sandbox/sandbox.h"

namespace buttress {

struct TrialResult {
  std::size_t passed = 0;  // tests before the first that failed
  std::string failure;     // why that one did; empty if all tests passed
};

// Runs the tests in turn up to the first that fails. The programs of all tests have
// run.reward.timeout_ms together. Returns
//   kInvalidArgument   the tests are not for the language, or cannot be run
//   kUnavailable       the machine failed, of which the program is innocent
// Thread-safe.
Result<TrialResult> RunTests(const Sandbox& sandbox, const RewardConfig& config,
                             std::string_view program, const CodeTests& tests);

}  // namespace buttress
