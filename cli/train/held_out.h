// The accuracy on run.data.held_out before and after training.
#pragma once

#include <optional>
#include <string>

#include "cli/train/console.h"
#include "cli/train/programs.h"
#include "cli/train/summary.h"

namespace buttress {

// Measures the model folder `model` with `rollout_worker eval` and stores the result in
// <out>/eval_<when>.json, where a resumed run finds it; `when` is "before" or "after". Returns
// nullopt for a run without held-out prompts. NothingToLearn if no prompt got a verdict, kCancelled
// after an interrupt.
Result<std::optional<Accuracy>> MeasureHeldOut(const std::string& when, const std::string& model,
                                               const RunConfig& config, const RunPrograms& programs,
                                               Console& console);

}  // namespace buttress
