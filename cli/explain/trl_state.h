// What TRL's trainer_state.json says of the dump next to it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace buttress {

// Of a run with eval_strategy: TRL writes the completions of an evaluation over those of the
// training step at which it evaluates, to the same file.
struct TrlEvaluations {
  std::set<std::int64_t> steps;  // up to `known`
  std::int64_t known = 0;        // the last step that the state has
  std::int64_t interval = 0;     // of those after it; 0 where none is expected

  bool At(std::int64_t step) const {
    return step > known ? interval > 0 && step % interval == 0 : steps.contains(step);
  }
};

// Reads the state of the run that wrote `dump`, a file <output_dir>/completions/NAME: from its
// folders, or from the newest checkpoint-STEP there. A state that is missing or cannot be read
// tells nothing.
TrlEvaluations EvaluationsOf(const std::string& dump);

}  // namespace buttress
