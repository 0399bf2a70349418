// The learning rate of each step.
#pragma once

#include <cstdint>

#include "lib/config/run_config.h"

namespace buttress {

// Of step 1 ... total_steps: lr * step / warmup_steps while warming up (so the first step moves
// already); then constant, or falling from lr to lr * min_lr_ratio at total_steps in a straight
// line or half a cosine. Pure.
double LearningRate(const OptimConfig& options, std::int64_t step, std::int64_t total_steps);

}  // namespace buttress
