#include "cli/train/step_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace buttress {
namespace {

constexpr double kShownWait = 0.1;  // of the step

// The value in the format `format`, or "-" if it was not measured.
std::string Text(const char* format, double value) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

std::string LeftText(double seconds_left) {
  if (seconds_left < 0) return "?";
  const auto seconds = static_cast<std::int64_t>(seconds_left);
  return seconds < 3600 ? fmt::format("{}m{:02}s", seconds / 60, seconds % 60)
                        : fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

// "  waits 34 % (groups)", with the largest of what the learner waited for.
std::string WaitText(const StepMeasurements& step) {
  const std::array<std::pair<const char*, double>, 3> causes = {
      {{"groups", step.seconds_wait + step.seconds_fetch},
       {"publishing", step.seconds_wait_weights},
       {"peers", step.seconds_wait_peers}}};
  const double share = step.seconds_waited() / step.seconds_step;
  if (!(share >= kShownWait)) return "";
  const auto largest = std::ranges::max_element(causes, {}, [](auto& c) { return c.second; });
  return fmt::format("  waits {:.0f} % ({})", 100 * share, largest->first);
}

// What --verbose adds.
std::string Details(const StepMeasurements& step) {
  std::string text =
      fmt::format("  all-correct {} all-wrong {} other {}", Text("{:.2f}", step.acr_all_correct),
                  Text("{:.2f}", step.acr_all_wrong), Text("{:.2f}", step.acr_other));
  if (step.groups_replaced > 0 || step.groups_masked > 0) {
    text += fmt::format("  drawn {:.0f} ({:.0f} replaced, {:.0f} masked)", step.groups,
                        step.groups_replaced, step.groups_masked);
    if (step.drawn_per_kept > 1) text += fmt::format("  tokens x{:.2f}", step.drawn_per_kept);
  }
  return text + fmt::format("  kl {}  fresh {}/s  age {}{}", Text("{:.1e}", step.kl),
                            Text("{:.0f}", step.speed_fresh), Text("{:.1f}", step.token_age_mean),
                            WaitText(step));
}

}  // namespace

std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left,
                     bool verbose) {
  std::string line = fmt::format(
      "step {:.0f}/{} {:3.0f}%  reward {}  accuracy {}  acr {}  entropy {}  {:.0f} tok/s  left {}",
      step.step, total_steps, 100.0 * step.step / static_cast<double>(total_steps),
      Text("{:.3f}", step.reward_mean), Text("{:.2f}", step.accuracy), Text("{:.2f}", step.acr),
      Text("{:.3g}", step.entropy), step.tokens_per_second, LeftText(seconds_left));
  if (step.unscorable > 0)
    line += fmt::format("  unscorable {:.0f}%", 100 * step.unscorable / step.completions);
  return verbose ? line + Details(step) : line;
}

double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps) {
  if (steps.size() < 2) return -1;
  const StepMeasurements& last = steps.back();
  const StepMeasurements& first = steps[steps.size() - std::min(kPaceSteps, steps.size())];
  if (last.step <= first.step) return -1;
  const double pace = (last.time_unix - first.time_unix) / (last.step - first.step);
  return pace * (static_cast<double>(total_steps) - last.step);
}

}  // namespace buttress
