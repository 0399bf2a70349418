#include "cli/step_line.h"

#include <fmt/core.h>

#include <algorithm>

namespace buttress {

std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left) {
  std::string left = "?";
  if (seconds_left >= 0) {
    const int seconds = static_cast<int>(seconds_left);
    left = fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  }
  std::string drawn;
  if (step.groups_replaced > 0 || step.groups_masked > 0) {
    drawn = fmt::format("  drawn {:.0f} ({:.0f} replaced, {:.0f} masked)", step.groups,
                        step.groups_replaced, step.groups_masked);
  }
  return fmt::format(
      "step {:.0f}/{} {:3.0f}%  reward {:.3f}  acr {:.2f} (all-correct {:.2f} all-wrong {:.2f} "
      "other {:.2f}){}  entropy {:.3f}  kl {:.1e}  {:.0f} tok/s  age {:.1f}  left {}",
      step.step, total_steps, 100.0 * step.step / static_cast<double>(total_steps),
      step.reward_mean, step.acr, step.acr_all_correct, step.acr_all_wrong, step.acr_other, drawn,
      step.entropy, step.kl, step.tokens_per_second, step.age_mean, left);
}

double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps) {
  constexpr std::size_t kWindow = 50;
  if (steps.size() < 2) return -1;
  const StepMeasurements& last = steps.back();
  const StepMeasurements& first = steps[steps.size() - std::min(kWindow, steps.size())];
  if (last.step <= first.step) return -1;
  const double pace = (last.time_unix - first.time_unix) / (last.step - first.step);
  return pace * (static_cast<double>(total_steps) - last.step);
}

}  // namespace buttress
