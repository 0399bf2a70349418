// Holds a run at a step for as long as a test needs, so that what the test does next finds the run
// at work however fast or slow the machine is.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {

// A part of run.reward.verifier that adds nothing to the rewards, and waits. The processes of the
// run read the step from a file.
class Brake {
 public:
  // As HoldAt.
  explicit Brake(int step) {
    EXPECT_TRUE(
        WriteFileAtomic(Path("brake.py"),
                        "import time\n\n"
                        "def hold(completions, trainer_state, **columns):\n"
                        "    while trainer_state and trainer_state.global_step >= int(open('" +
                            Path("step") +
                            "').read()):\n"
                            "        time.sleep(0.01)\n"
                            "    return [None] * len(completions)\n")
            .ok());
    HoldAt(step);
  }

  // From now on nothing that the policy of `step` or a later one sampled is scored. Thus the run
  // takes this step for certain, and with max_age 1 no other one than the next.
  void HoldAt(int step) const {
    EXPECT_TRUE(WriteFileAtomic(Path("step"), std::to_string(step)).ok());
  }

  void Release() const { HoldAt(std::numeric_limits<int>::max()); }

  // The value of run.reward.verifier with which a run scores as with `verifier`.
  std::string Verifier(const std::string& verifier = "countdown") const {
    return verifier + " + python:" + Path("brake.py") + ":hold";
  }

  // `arguments` and those that put the brake into a run of TinyRunYaml.
  std::vector<std::string> With(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--set", "run.reward.verifier=" + Verifier(), "--set",
                                       "run.reward.timeout_ms=" + std::to_string(kPatienceMs)});
    return arguments;
  }

  static constexpr std::int64_t kPatienceMs = 3600000;

 private:
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }

  TempDir dir_;
};

}  // namespace buttress
