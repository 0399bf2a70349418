#include "learner/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace buttress {

double LearningRate(const OptimConfig& options, std::int64_t step, std::int64_t total_steps) {
  if (step < options.warmup_steps)
    return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
  if (options.schedule == LrSchedule::kConstant) return options.lr;
  const auto falling_steps =
      static_cast<double>(std::max<std::int64_t>(1, total_steps - options.warmup_steps));
  const double done =
      std::clamp(static_cast<double>(step - options.warmup_steps) / falling_steps, 0.0, 1.0);
  const double left = options.schedule == LrSchedule::kLinear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.lr * (options.min_lr_ratio + (1 - options.min_lr_ratio) * left);
}

}  // namespace buttress
